//! Which Service leads to which workload, found once for a whole file. Called by `assemble.rs`.

use std::collections::BTreeMap;

use crate::kubernetes::service::Service;
use crate::kubernetes::workload::Workload;

/// Services and workloads by their numbers in the file.
#[derive(Debug)]
pub(super) struct Leads {
    /// For each Service the workloads behind it.
    pub(super) behind: Vec<Vec<usize>>,
    /// For each workload the Services that lead to it.
    pub(super) to: Vec<Vec<usize>>,
}

/// Looks only at the workloads that have the rarest label of a selector: each Service against each
/// workload would be too much for a large file.
pub(super) fn leads(services: &[Service<'_>], workloads: &[Workload<'_>]) -> Leads {
    let mut labelled: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (number, workload) in workloads.iter().enumerate() {
        for (key, value) in &workload.labels {
            labelled.entry((key, value)).or_default().push(number);
        }
    }
    let mut leads = Leads { behind: Vec::new(), to: vec![Vec::new(); workloads.len()] };
    for (service_number, service) in services.iter().enumerate() {
        let pairs = service.selector.iter();
        let fewest = pairs
            .map(|(key, value)| labelled.get(&(key.as_str(), value.as_str())))
            .map(|numbers| numbers.map_or(&[][..], Vec::as_slice))
            .min_by_key(|numbers| numbers.len());
        let selected = fewest.unwrap_or_default().iter().copied();
        let behind: Vec<usize> =
            selected.filter(|number| service.selects(&workloads[*number].labels)).collect();
        for number in &behind {
            leads.to[*number].push(service_number);
        }
        leads.behind.push(behind);
    }
    leads
}
