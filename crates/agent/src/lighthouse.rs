//! Where the controller is when it is not where it was: lighthouses know. Asked by [`crate::run()`]
//! after every known address was tried in vain; start at [`ask`].
//!
//! A lighthouse is not trusted with more than a hint. Whatever address it names is dialled with the
//! pinned authority, so that nobody but our own controllers can answer there.

use serde::{Deserialize, Serialize};
use tombolo_model::phrase::with_causes;

use crate::join_file::check_address;
use crate::{connection, join};

pub(crate) const LIGHTHOUSES_MAX: usize = 8;
/// Old addresses are kept, since a controller may come back to an old one. More addresses would take too
/// long to try.
const ADDRESSES_MAX: usize = 16;

/// A server that can be asked, and what it takes to ask it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Lighthouse {
    pub address: String,
    /// As PEM.
    pub authority: String,
    /// Of a guest, who may look and nothing else.
    pub token: String,
}

/// The addresses that the lighthouses know, and all that were known before; `None` if none of the
/// addresses is new.
pub(crate) async fn ask(lighthouses: &[Lighthouse], known: &[String]) -> Option<Vec<String>> {
    let mut told = Vec::new();
    for lighthouse in lighthouses.iter().take(LIGHTHOUSES_MAX) {
        match ask_one(lighthouse).await {
            Ok(addresses) => told.extend(addresses),
            Err(error) => {
                let address = &lighthouse.address;
                tracing::info!(address, error = with_causes(&error), "no lighthouse there");
            }
        }
    }
    merged(known, told)
}

async fn ask_one(lighthouse: &Lighthouse) -> Result<Vec<String>, crate::Error> {
    let Lighthouse { address, authority, token } = lighthouse;
    let client = connection::with_token(address, authority, token)?;
    let answer = join::get(&client, "/tombolo/controllers").await?;
    let controllers = answer["controllers"].as_array().into_iter().flatten();
    let addresses = controllers.flat_map(|one| one["addresses"].as_array().into_iter().flatten());
    Ok(addresses.filter_map(|address| address.as_str()).map(str::to_owned).collect())
}

/// New ones first: the old ones have just failed.
fn merged(known: &[String], told: Vec<String>) -> Option<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for address in told {
        if !known.contains(&address) && !all.contains(&address) && check_address(&address).is_ok() {
            all.push(address);
        }
    }
    if all.is_empty() {
        return None;
    }
    all.truncate(ADDRESSES_MAX);
    let room = ADDRESSES_MAX - all.len();
    all.extend(known.iter().take(room.max(1)).cloned());
    Some(all)
}

impl std::fmt::Debug for Lighthouse {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Lighthouse").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn new_addresses_go_first_and_what_is_no_address_is_left_out() {
        let known = texts(&["https://old:1"]);
        let told = texts(&["https://old:1", "https://new:1", "http://plain", "https://new:1"]);
        assert_eq!(merged(&known, told), Some(texts(&["https://new:1", "https://old:1"])));
        assert_eq!(merged(&known, texts(&["https://old:1"])), None);
        assert_eq!(merged(&known, Vec::new()), None);
    }

    #[test]
    fn a_lighthouse_that_says_too_much_is_cut_short() {
        let told: Vec<String> = (0..100).map(|port| format!("https://new:{port}")).collect();
        let all = merged(&texts(&["https://old:1"]), told).unwrap();
        assert_eq!(all.len(), ADDRESSES_MAX + 1);
        assert_eq!(all.last().unwrap(), "https://old:1");
    }

    #[test]
    fn debug_shows_no_secret() {
        let address = "https://light:1".to_owned();
        let (authority, token) = ("PEM".to_owned(), "tombolo_secret".to_owned());
        let text = format!("{:?}", Lighthouse { address, authority, token });
        assert!(!text.contains("secret"), "{text}");
    }
}
