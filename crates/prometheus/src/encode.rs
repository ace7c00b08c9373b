//! Encodes sample chunks and remote-read frames for tests and fuzzers.

use gpuctl_core::protobuf::{put_bytes, put_number, put_varint};

/// Encodes a chunk. Builds a string of zeros and ones first, so that the code follows the
/// specification literally.
pub(crate) fn encode_chunk(points: &[(i64, f64)]) -> Vec<u8> {
    let mut text = String::new();
    let (mut distance, mut window) = (0, None);
    for (number, (time, value)) in points.iter().enumerate() {
        let before = number.checked_sub(1).map(|before| points[before]);
        let Some((earlier, previous)) = before else {
            text += &varint_bits(((time << 1) ^ (time >> 63)).cast_unsigned());
            text += &format!("{:064b}", value.to_bits());
            continue;
        };
        let now = time - earlier;
        text += &if number == 1 {
            varint_bits(now.cast_unsigned())
        } else {
            change_bits(now - distance)
        };
        distance = now;
        text += &value_bits(previous.to_bits() ^ value.to_bits(), &mut window);
    }
    while !text.len().is_multiple_of(8) {
        text.push('0');
    }
    let mut bytes = u16::try_from(points.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(
        (0..text.len())
            .step_by(8)
            .map(|place| u8::from_str_radix(&text[place..place + 8], 2).unwrap()),
    );
    bytes
}

fn varint_bits(number: u64) -> String {
    let mut varint = Vec::new();
    put_varint(&mut varint, number);
    varint.iter().map(|byte| format!("{byte:08b}")).collect()
}

/// Encodes the difference between two successive time deltas.
fn change_bits(change: i64) -> String {
    match change {
        0 => "0".to_owned(),
        -8191..=8192 => format!("10{:014b}", change & 0x3fff),
        -65_535..=65_536 => format!("110{:017b}", change & 0x1_ffff),
        -524_287..=524_288 => format!("1110{:020b}", change & 0xf_ffff),
        _ => format!("1111{change:064b}"),
    }
}

/// Encodes the XOR of a value with the previous one. `window` holds the numbers of leading and
/// trailing zeros of the last block that stated them.
fn value_bits(differs: u64, window: &mut Option<(u32, u32)>) -> String {
    if differs == 0 {
        return "0".to_owned();
    }
    let (leading, trailing) = (differs.leading_zeros().min(31), differs.trailing_zeros());
    if let Some((front, back)) =
        window.filter(|(front, back)| leading >= *front && trailing >= *back)
    {
        let length = (64 - front - back) as usize;
        return format!("10{:0length$b}", differs >> back);
    }
    *window = Some((leading, trailing));
    let length = (64 - leading - trailing) as usize;
    format!(
        "11{leading:05b}{:06b}{:0length$b}",
        length % 64,
        differs >> trailing
    )
}

/// Encodes a frame that contains one series with the given chunks.
pub(crate) fn frame(labels: &[(&str, &str)], chunks: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let (mut series, mut response, mut output) = (Vec::new(), Vec::new(), Vec::new());
    for (name, value) in labels {
        let mut label = Vec::new();
        put_bytes(&mut label, 1, name.as_bytes());
        put_bytes(&mut label, 2, value.as_bytes());
        put_bytes(&mut series, 1, &label);
    }
    for (encoding, data) in chunks {
        let mut chunk = Vec::new();
        put_number(&mut chunk, 1, 0);
        put_number(&mut chunk, 3, *encoding);
        put_bytes(&mut chunk, 4, data);
        put_bytes(&mut series, 2, &chunk);
    }
    put_bytes(&mut response, 1, &series);
    put_number(&mut response, 2, 0);
    put_varint(&mut output, response.len() as u64);
    output.extend([0; 4]);
    output.extend(response);
    output
}
