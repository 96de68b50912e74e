//! Which kinds are served now. The truth is the CustomResourceDefinitions in the store, with the
//! core kinds beside them; this is what they compile to, made anew whenever one of them changes.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use bytes::Bytes;
use tombolo_store::{At, Store};

use crate::builtin::{self, builtin_kinds};
use crate::kinds::Kind;
use crate::table::Columns;
use crate::{crd, encode, openapi};

/// A kind, ready to be used.
#[derive(Debug)]
pub struct Served {
    pub kind: Arc<Kind>,
    pub columns: Columns,
}

/// All kinds of one moment, and the documents about them, which are made when first asked for.
#[derive(Debug)]
pub struct Kinds {
    served: BTreeMap<Address, Arc<Served>>,
    plain: Vec<Arc<Kind>>,
    openapi_v2: OnceLock<Bytes>,
    openapi_v2_binary: OnceLock<Bytes>,
    openapi_v3: OnceLock<OpenApiV3>,
}

/// Group, version and plural name.
type Address = (String, String, String);

#[derive(Debug)]
struct OpenApiV3 {
    index: Bytes,
    documents: BTreeMap<String, Bytes>,
}

impl Kinds {
    fn new(kinds: Vec<Kind>) -> Kinds {
        let mut served = BTreeMap::new();
        for kind in kinds {
            let address = (kind.group.clone(), kind.version.clone(), kind.plural.clone());
            match Columns::of(&kind) {
                Ok(columns) => {
                    served.insert(address, Arc::new(Served { kind: Arc::new(kind), columns }));
                }
                // Refused at the door; this one was stored by another release.
                Err(problem) => {
                    tracing::error!(?address, %problem, "a stored definition is unusable");
                }
            }
        }
        let plain = served.values().map(|served| served.kind.clone()).collect();
        Kinds {
            served,
            plain,
            openapi_v2: OnceLock::new(),
            openapi_v2_binary: OnceLock::new(),
            openapi_v3: OnceLock::new(),
        }
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.served.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.served.values()
    }

    pub fn plain(&self) -> &[Arc<Kind>] {
        &self.plain
    }

    pub fn openapi_v2(&self) -> Bytes {
        self.openapi_v2.get_or_init(|| encode::to_bytes(&openapi::v2(&self.plain))).clone()
    }

    /// In the one form that kubectl before 1.29 reads.
    pub fn openapi_v2_binary(&self) -> Bytes {
        let render = || Bytes::from(openapi::v2_binary(&openapi::v2(&self.plain)));
        self.openapi_v2_binary.get_or_init(render).clone()
    }

    pub fn openapi_v3_index(&self) -> Bytes {
        self.openapi_v3().index.clone()
    }

    pub fn openapi_v3_document(&self, group: &str, version: &str) -> Option<Bytes> {
        let path = match group {
            "" => format!("api/{version}"),
            group => format!("apis/{group}/{version}"),
        };
        self.openapi_v3().documents.get(&path).cloned()
    }

    fn openapi_v3(&self) -> &OpenApiV3 {
        self.openapi_v3.get_or_init(|| {
            let documents: BTreeMap<String, Bytes> = openapi::documents(&self.plain)
                .into_iter()
                .map(|(path, document)| (path, encode::to_bytes(&document)))
                .collect();
            let bytes = documents.iter().map(|(path, bytes)| (path.as_str(), &bytes[..]));
            OpenApiV3 { index: encode::to_bytes(&openapi::index(bytes)), documents }
        })
    }
}

/// The kinds of now.
#[derive(Debug)]
pub struct Registry {
    kinds: RwLock<Arc<Kinds>>,
}

impl Registry {
    pub fn load(store: &Store) -> Registry {
        Registry { kinds: RwLock::new(Arc::new(read_kinds(store))) }
    }

    pub fn now(&self) -> Arc<Kinds> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Called after a definition was written and before its writer is answered, so that the kind
    /// is served when the client hears of it. The lock is held while reading: of two reloads at
    /// once, the one that ends last has seen both writes.
    pub fn reload(&self, store: &Store) {
        let mut kinds = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
        *kinds = Arc::new(read_kinds(store));
    }
}

fn read_kinds(store: &Store) -> Kinds {
    let mut kinds = builtin_kinds();
    let page = store
        .list(CRD_PREFIX, At::Latest, None, usize::MAX)
        .expect("the latest state can always be listed");
    for object in &page.objects {
        let definition = encode::parse(object);
        if !crd::is_established(&definition) {
            continue;
        }
        match crd::kinds(&definition) {
            Ok(more) => kinds.extend(more),
            Err(problems) => {
                tracing::error!(key = %object.key, ?problems, "a stored definition is unusable");
            }
        }
    }
    Kinds::new(kinds)
}

/// Enough of a kind that is not served to delete its objects.
pub(crate) fn stand_in(group: &str, plural: &str) -> Arc<Served> {
    let kind = Kind {
        group: group.to_owned(),
        plural: plural.to_owned(),
        ..builtin::definition_kind().clone()
    };
    let columns = Columns::of(&kind).expect("the columns of a core kind");
    Arc::new(Served { kind: Arc::new(kind), columns })
}

/// The key prefix of definitions; the registry cannot ask itself for it.
pub const CRD_PREFIX: &str = "apiextensions.k8s.io/customresourcedefinitions/";
