//! What is made up is valid, and the same for the same seed.

use super::*;

#[test]
fn a_seed_names_an_instance_for_good() {
    let shape = Shape { sites: 5, nodes: 20, components: 6, seed: 11 };
    let made = instance(&shape);
    assert_eq!(made, instance(&shape));
    assert_ne!(made, instance(&Shape { seed: 12, ..shape }));
    assert_eq!((made.sites.len(), made.nodes.len(), made.app.spec.components.len()), (5, 20, 6));
}

#[test]
fn what_is_made_up_is_valid() {
    for seed in 0..20 {
        let made = instance(&Shape { sites: 7, nodes: 12, components: 5, seed });
        let mut objects: Vec<serde_json::Value> = Vec::new();
        objects.extend(made.sites.iter().map(|site| serde_json::to_value(site).unwrap()));
        objects.extend(made.nodes.iter().map(|node| serde_json::to_value(node).unwrap()));
        objects.extend(made.links.iter().map(|link| serde_json::to_value(link).unwrap()));
        objects.push(serde_json::to_value(&made.app).unwrap());
        for object in objects {
            assert_eq!(tombolo_model::validate::object(&object), [], "{object}");
        }
    }
}

#[test]
fn absurd_sizes_are_cut() {
    let made = instance(&Shape { sites: 0, nodes: 0, components: 0, seed: 0 });
    assert_eq!((made.sites.len(), made.nodes.len(), made.app.spec.components.len()), (1, 1, 1));
}
