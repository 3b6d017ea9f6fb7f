//! Which columns of a member are not 0. Most members of a group have the same ones, so that a byte each says which.

/// Shapes that a byte can say.
const SHAPES_MAX: usize = 255;
/// In place of a shape's number: there are too many, and the columns themselves follow, after how many they are (u16).
const INLINE: u8 = 255;

struct Shape {
    columns: Box<[u8]>,
    /// Members that have it. Without any it may become another one.
    members: u32,
}

/// The shapes of one table. Bounded by SHAPES_MAX.
#[derive(Default)]
pub struct Shapes(Vec<Shape>);

impl Shapes {
    /// Appends what says that a member has these columns, and counts it.
    pub fn put(&mut self, columns: &[u8], out: &mut Vec<u8>) {
        let known = self.0.iter().position(|own| *own.columns == *columns);
        let unused = || self.0.iter().position(|own| own.members == 0);
        let Some(place) = known.or_else(unused).or_else(|| self.grow()) else {
            out.push(INLINE);
            out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
            return out.extend_from_slice(columns);
        };
        let shape = &mut self.0[place];
        if known.is_none() {
            shape.columns = columns.into();
        }
        shape.members += 1;
        out.push(place as u8);
    }

    /// Makes one more.
    fn grow(&mut self) -> Option<usize> {
        (self.0.len() < SHAPES_MAX).then(|| {
            self.0.push(Shape {
                columns: Box::default(),
                members: 0,
            });
            self.0.len() - 1
        })
    }

    /// The columns that `put` wrote, and what follows them.
    pub fn columns<'a>(&'a self, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        match bytes {
            [INLINE, low, high, rest @ ..] => {
                rest.split_at(u16::from_le_bytes([*low, *high]) as usize)
            }
            [shape, rest @ ..] => (&self.0[*shape as usize].columns, rest),
            [] => (&[], &[]),
        }
    }

    /// A member with what `put` wrote goes.
    pub fn leave(&mut self, bytes: &[u8]) {
        if let Some(shape) = bytes.first().filter(|shape| **shape != INLINE) {
            self.0[*shape as usize].members -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_beyond_a_byte_are_written_out_until_one_is_free() {
        let mut shapes = Shapes::default();
        let columns = |number: u16| [number.to_le_bytes(), [7; 2]].concat();
        let mut written = Vec::new();
        for number in 0..SHAPES_MAX as u16 + 2 {
            let mut out = Vec::new();
            shapes.put(&columns(number), &mut out);
            assert_eq!(out.len(), if number < 255 { 1 } else { 1 + 2 + 4 });
            written.push(out);
        }
        for (number, out) in written.iter().enumerate() {
            let behind = [&out[..], b"behind"].concat();
            let found = shapes.columns(&behind);
            assert_eq!(found, (&columns(number as u16)[..], &b"behind"[..]));
        }
        let mut out = Vec::new();
        shapes.put(&columns(9), &mut out);
        assert_eq!(out, written[9], "it is known");
        // Two have it: the second one's leave makes it free.
        for size in [7, 1] {
            shapes.leave(&written[9]);
            out.clear();
            shapes.put(&columns(999), &mut out);
            assert_eq!(out.len(), size);
        }
        assert_eq!(shapes.columns(&out).0, columns(999));
        shapes.leave(&written[255]);
    }
}
