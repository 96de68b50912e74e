//! The encoding of protocol buffers, without a schema: [`Fields`] reads a message field by field, and
//! the `put_…` functions write one. Called by the readers and writers of messages beside it.

use super::Error;

/// A value as it lies in the bytes; what it means is known to whoever knows the field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> Value<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], Error> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Varint(_) | Value::Fixed64(_) | Value::Fixed32 => Err(UNEXPECTED),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Error::Malformed("a text is not UTF-8"))
    }

    pub(super) fn number(self) -> Result<u64, Error> {
        match self {
            Value::Varint(number) | Value::Fixed64(number) => Ok(number),
            Value::Bytes(_) | Value::Fixed32 => Err(UNEXPECTED),
        }
    }

    pub(super) fn signed(self) -> Result<i64, Error> {
        Ok(self.number()?.cast_signed())
    }

    pub(super) fn double(self) -> Result<f64, Error> {
        match self {
            Value::Fixed64(bits) => Ok(f64::from_bits(bits)),
            Value::Varint(_) | Value::Bytes(_) | Value::Fixed32 => Err(UNEXPECTED),
        }
    }
}

const UNEXPECTED: Error = Error::Malformed("a field is of another type than expected");
const SHORT: Error = Error::Malformed("it ends too early");

/// The fields of a message, in the order in which they were written.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// The number of the next field and its value; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, Error> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| SHORT)?;
                let (bytes, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            5 => {
                self.fixed::<4>()?;
                Value::Fixed32
            }
            // Groups are older than any message that is read here.
            _ => return Err(Error::Malformed("a field is of an unknown type")),
        };
        Ok(Some((key >> 3, value)))
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Error> {
        let mut number = 0;
        for (place, byte) in self.0.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                self.0 = &self.0[place + 1..];
                return Ok(number);
            }
        }
        Err(if self.0.len() < 10 { SHORT } else { Error::Malformed("a number has no end") })
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*bytes)
    }
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// A field of bytes: a text, or a message. Empty ones are left out, as is the custom for texts.
pub(super) fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    if !bytes.is_empty() {
        put_message(out, field, bytes);
    }
}

/// A message stands there even if it is empty: it counts.
pub(super) fn put_message(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Zero is left out, as is the custom.
pub(super) fn put_number(out: &mut Vec<u8>, field: u64, number: u64) {
    if number != 0 {
        put_varint(out, field << 3);
        put_varint(out, number);
    }
}

pub(super) fn put_double(out: &mut Vec<u8>, field: u64, value: f64) {
    put_varint(out, field << 3 | 1);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_come_back_as_they_were_written() {
        let mut out = Vec::new();
        put_number(&mut out, 1, u64::MAX);
        put_double(&mut out, 2, -0.5);
        put_bytes(&mut out, 300, b"text");
        put_bytes(&mut out, 4, b"");
        put_message(&mut out, 5, b"");
        let mut fields = Fields(&out);
        assert_eq!(fields.next(), Ok(Some((1, Value::Varint(u64::MAX)))));
        assert_eq!(fields.next(), Ok(Some((2, Value::Fixed64((-0.5_f64).to_bits())))));
        assert_eq!(fields.next(), Ok(Some((300, Value::Bytes(b"text")))));
        assert_eq!(fields.next(), Ok(Some((5, Value::Bytes(b"")))));
        assert_eq!(fields.next(), Ok(None));
    }

    #[test]
    fn a_message_that_is_cut_or_lies_about_a_length_is_refused() {
        for wrong in [&[0x08][..], &[0x0a, 5, 1], &[0x09, 1, 2], &[0x0b], &[0xff; 11]] {
            assert!(Fields(wrong).next().is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut fields = Fields(&bytes);
            let mut count = 0;
            while let Ok(Some(_)) = fields.next() {
                count += 1;
            }
            prop_assert!(count <= bytes.len());
        }
    }
}
