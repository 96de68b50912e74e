//! Enums that are words on the wire. One macro, so that all of them read, write and list alike.

/// Declares an enum together with the word that each variant is in JSON.
macro_rules! named {
    (
        $(#[$outer:meta])*
        pub enum $name:ident { $( $(#[$inner:meta])* $variant:ident = $word:literal, )+ }
    ) => {
        $(#[$outer])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        pub enum $name { $( $(#[$inner])* #[serde(rename = $word)] $variant, )+ }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: &[$name] = &[$( $name::$variant, )+];

            /// The word on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $( $name::$variant => $word, )+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use named;

/// For `skip_serializing_if`: a flag that is not set need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}
