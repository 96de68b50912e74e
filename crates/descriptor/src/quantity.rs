//! Quantities in a field: processor time, bytes, durations, bit rates, levels, architectures, with
//! the spellings of the dialects. Never through a float: what was written is what is read.

use std::str::FromStr;

use tombolo_model::quantity::Error;
use tombolo_model::{Arch, BitRate, Bytes, Cpu, Duration, Level};

use crate::fields::Field;
use crate::reader::Reader;

impl Field<'_> {
    /// A quantity as the model spells it.
    pub(crate) fn quantity<Q: FromStr<Err = Error>>(&self, reader: &mut Reader<'_>) -> Option<Q> {
        self.quantity_as(reader, str::to_owned)
    }

    /// A quantity in the spelling of a dialect: `spell` writes it the model's way first.
    pub(crate) fn quantity_as<Q: FromStr<Err = Error>>(
        &self,
        reader: &mut Reader<'_>,
        spell: impl FnOnce(&str) -> String,
    ) -> Option<Q> {
        let written = self.str(reader)?;
        match spell(written).parse::<Q>() {
            Ok(quantity) => Some(quantity),
            Err(error) => {
                self.no_quantity(reader, &error.to_string());
                None
            }
        }
    }

    pub(crate) fn cpu(&self, reader: &mut Reader<'_>) -> Option<Cpu> {
        self.quantity(reader)
    }

    /// `200Mi`, `7Gi`, `200M`; `200Mb` and `512MB` are read, and the right spelling is offered.
    pub(crate) fn bytes(&self, reader: &mut Reader<'_>) -> Option<Bytes> {
        let bytes: Bytes = self.quantity(reader)?;
        let written = self.str(reader)?;
        if let Some(short) = written.strip_suffix(['b', 'B'])
            && short.ends_with(|letter: char| letter.is_ascii_alphabetic())
        {
            let message = format!("{written:?} is read as {short}: memory is counted in bytes");
            self.warning(reader, "sloppy-unit", message)
                .expecting("a suffix such as M (millions) or Mi (1024²), without \"b\"")
                .mended_by(self.node.span, short);
        }
        Some(bytes)
    }

    pub(crate) fn duration(&self, reader: &mut Reader<'_>) -> Option<Duration> {
        self.quantity(reader)
    }

    /// A duration in which a bare number means so many `unit`s, such as `ms`.
    pub(crate) fn duration_in(&self, reader: &mut Reader<'_>, unit: &str) -> Option<Duration> {
        self.quantity_as(reader, |written| match written.trim().parse::<f64>() {
            Ok(_) => format!("{}{unit}", written.trim()),
            Err(_) => written.to_owned(),
        })
    }

    pub(crate) fn bit_rate(&self, reader: &mut Reader<'_>) -> Option<BitRate> {
        self.quantity(reader)
    }

    pub(crate) fn level(&self, reader: &mut Reader<'_>) -> Option<Level> {
        self.quantity(reader)
    }

    pub(crate) fn arch(&self, reader: &mut Reader<'_>) -> Option<Arch> {
        self.quantity(reader)
    }

    fn no_quantity(&self, reader: &mut Reader<'_>, message: &str) {
        let (message, meant) = crate::validated::split_suggestion(message);
        let (message, expected) = match message.split_once("; write ") {
            Some((message, expected)) => (message.to_owned(), Some(expected.to_owned())),
            None => (message, None),
        };
        let span = self.node.span;
        let diagnostic = self.error(reader, "invalid-quantity", message);
        if let Some(expected) = expected {
            diagnostic.expecting(expected);
        }
        if let Some(meant) = meant {
            diagnostic.mended_by(span, meant);
        }
    }
}
