//! Events: what a loop tells people about an object. The same again is counted up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};

use tombolo_model::event::{Memory, News, Once};

use crate::clock;

/// Remembers what the loops of this process have told. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Teller(Arc<Mutex<Memory>>);

impl Teller {
    pub(crate) async fn tell(&self, client: &Client, news: &News<'_>) -> Result<(), kube::Error> {
        let api: Api<Event> = Api::namespaced(client.clone(), news.namespace());
        let now = Time(clock::time_of_day());
        let key = news.key();
        let before = self.memory().next(&key);
        if let Some(once) = before {
            let patch = Patch::Merge(news.again(once.count, &now));
            match api.patch(&once.name, &PatchParams::default(), &patch).await {
                Ok(_) => {
                    self.memory().remember(key, once);
                    return Ok(());
                }
                // It was old and has gone.
                Err(kube::Error::Api(status)) if status.code == 404 => (),
                Err(error) => return Err(error),
            }
        }
        let made = api.create(&PostParams::default(), &news.event(now)).await?;
        let name = made.metadata.name.unwrap_or_default();
        self.memory().remember(key, Once { name, count: 1 });
        Ok(())
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
