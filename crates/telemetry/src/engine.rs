//! What was measured, for policies: the store of this server as an [`Engine`], in the same process.

use tombolo_policy::look::{Engine, Question, Seen, instant};

use crate::api::{Sees, Service};

/// Policies are in namespaces, and see what users of theirs see.
#[derive(Clone, Debug)]
pub struct Hub {
    service: Service,
    /// Whose policies see everything.
    system: &'static str,
}

impl Hub {
    /// Policies of the namespace `system` see the samples of all.
    pub fn new(service: Service, system: &'static str) -> Self {
        Self { service, system }
    }
}

impl Engine for Hub {
    fn ask(&self, namespace: &str, question: &Question, at_ms: i64) -> Result<Vec<Seen>, String> {
        let Some(store) = self.service.opened() else {
            return match self.service.has_samples() {
                true => Err("the samples are being opened".to_owned()),
                // Nobody has written any, and a folder for them is made by whoever does.
                false => Ok(Vec::new()),
            };
        };
        let sees = match namespace == self.system {
            true => Sees::Everything,
            false => Sees::Only { namespaces: vec![namespace.to_owned()], machines: true },
        };
        let enforced = sees.enforced().ok_or("nothing may be seen")?;
        let asked = store.asked(enforced);
        let seen = instant(&question.text, &question.expr, &asked, at_ms);
        seen.map_err(|error| error.to_string())
    }
}
