//! As much of protocol buffers as a SentencePiece model needs: the fields of one message, in order.
//! What the fields mean is `sentencepiece`'s.

/// The bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("read a field at byte {at}: the message ends or is damaged there")]
pub(super) struct Damaged {
    /// Where, counted from the message's first byte.
    pub(super) at: usize,
}

/// A field's value as it stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// A whole number, a truth value or a variant.
    Varint(u64),
    /// A text, bytes, or a message inside.
    Bytes(&'a [u8]),
    /// Four bytes: a float among others.
    Fixed32([u8; 4]),
    /// Eight bytes.
    Fixed64([u8; 8]),
}

/// The fields of a message, each with its number.
pub(super) fn fields(message: &[u8]) -> Fields<'_> {
    Fields { message, at: 0 }
}

/// See [`fields`]. After an error there is nothing more.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.message.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.message.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(self.take(8)?.try_into().ok()?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(self.take(4)?.try_into().ok()?),
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.message.len() {
            return None;
        }
        let at = self.at;
        let field = self.field();
        if field.is_none() {
            self.at = self.message.len();
        }
        Some(field.ok_or(Damaged { at }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_field_is_read_in_order() {
        let message =
            [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 0, 0, 0x80, 0x3f, 0x21, 1, 0, 0, 0, 0, 0, 0, 0];
        let read: Vec<_> = fields(&message).collect();
        assert_eq!(
            read,
            [
                Ok((1, Value::Varint(150))),
                Ok((2, Value::Bytes(b"hi"))),
                Ok((3, Value::Fixed32(1.0_f32.to_le_bytes()))),
                Ok((4, Value::Fixed64(1_u64.to_le_bytes()))),
            ]
        );
    }

    #[test]
    fn a_message_that_is_cut_off_or_no_message_is_told_once_with_its_place() {
        for (message, at) in [
            (&[0x08][..], 0),
            (&[0x08, 0x01, 0x12, 5, b'h'], 2),
            (&[0x0b], 0),
            (&[0xff; 12], 0),
            (&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], 0),
        ] {
            let read: Vec<_> = fields(message).filter(Result::is_err).collect();
            assert_eq!(read, [Err(Damaged { at })], "{message:?}");
        }
    }
}
