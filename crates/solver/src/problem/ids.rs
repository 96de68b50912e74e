//! Numbers that point into the vectors of a [`Problem`](super::Problem), each with a type of its own, so
//! that the compiler keeps nodes, zones and items apart.

use super::{Choice, Item, Node};

/// A type for each kind of number.
macro_rules! ids {
    ($($(#[$doc:meta])* $visibility:vis $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        $visibility struct $name(pub u32);

        impl $name {
            /// What is beyond `u32` becomes a number that points nowhere: a valid problem counts in
            /// `u32`, and any other is refused before it is searched.
            $visibility fn new(index: usize) -> $name {
                $name(u32::try_from(index).unwrap_or(u32::MAX))
            }

            /// Where it points in a vector.
            $visibility const fn at(self) -> usize {
                self.0 as usize
            }

            /// The first so many, ascending.
            $visibility fn first(count: usize) -> impl DoubleEndedIterator<Item = $name> + Clone {
                (0..$name::new(count).0).map($name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

/// Which number may point into which vector.
macro_rules! pointing {
    ($($name:ident: $vector:ty => $row:ty;)*) => {$(
        impl std::ops::Index<$name> for $vector {
            type Output = $row;

            fn index(&self, id: $name) -> &$row {
                &self[id.at()]
            }
        }

        impl std::ops::IndexMut<$name> for $vector {
            fn index_mut(&mut self, id: $name) -> &mut $row {
                &mut self[id.at()]
            }
        }
    )*};
}

pub(crate) use {ids, pointing};

ids! {
    /// A node, as [`Problem::nodes`](super::Problem::nodes) numbers it.
    pub NodeId
    /// A zone, as [`Problem::zones`](super::Problem::zones) numbers it.
    pub ZoneId
    /// An item, as [`Problem::items`](super::Problem::items) numbers it.
    pub ItemId
}

pointing! {
    NodeId: Vec<Node> => Node;
    ItemId: Vec<Item> => Item;
    ItemId: Vec<Option<Choice>> => Option<Choice>;
    ItemId: [Option<Choice>] => Option<Choice>;
}
