//! The checksum that redb puts at the end of a commit's slot: XXH3 with 128 bits, the default
//! secret and no seed, here for the one length of a slot. `header` compares it.
//!
//! <https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>, "Medium inputs".

/// What a slot has before its checksum.
pub(crate) const COVERED: usize = 112;

const PRIME_1: u64 = 0x9E37_79B1_85EB_CA87;
const PRIME_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const PRIME_4: u64 = 0x85EB_CA77_C2B2_AE63;
/// Called `PRIME_MX1` there; not the same as its third prime.
const PRIME_AVALANCHE: u64 = 0x1656_6791_9E37_79F9;
/// The part of the default secret that this length needs, as little-endian words.
const SECRET: [u64; 16] = [
    0xbe4b_a423_396c_feb8,
    0x1cad_21f7_2c81_017c,
    0xdb97_9083_e96d_d4de,
    0x1f67_b3b7_a4a4_4072,
    0x78e5_c0cc_4ee6_79cb,
    0x2172_ffcc_7dd0_5a82,
    0x8e24_43f7_7446_08b8,
    0x4c26_3a81_e690_35e0,
    0xcb00_c391_bb52_283c,
    0xa32e_531b_8b65_d088,
    0x4ef9_0da2_9748_6471,
    0xd8ac_dea9_46ef_1938,
    0x3f34_9ce3_3f76_faa8,
    0x1d4f_0bc7_c7bb_dcf9,
    0x3159_b4cd_4be0_518a,
    0x6473_78d9_c97e_9fc8,
];

pub(crate) fn checksum(data: &[u8; COVERED]) -> u128 {
    let length = COVERED as u64;
    let mut low = PRIME_1.wrapping_mul(length);
    let mut high = 0_u64;
    // From the middle outwards: a piece from the front with its counterpart from the end.
    for front in [48, 32, 16, 0] {
        let back = COVERED - 16 - front;
        let secret = front / 4;
        low = low.wrapping_add(mix(data, front, secret));
        low ^= word(data, back).wrapping_add(word(data, back + 8));
        high = high.wrapping_add(mix(data, back, secret + 2));
        high ^= word(data, front).wrapping_add(word(data, front + 8));
    }
    let sum = low.wrapping_add(high);
    let product = low
        .wrapping_mul(PRIME_1)
        .wrapping_add(high.wrapping_mul(PRIME_4))
        .wrapping_add(length.wrapping_mul(PRIME_2));
    let upper = 0_u64.wrapping_sub(avalanche(product));
    (u128::from(upper) << 64) | u128::from(avalanche(sum))
}

fn word(data: &[u8; COVERED], at: usize) -> u64 {
    u64::from_le_bytes(data[at..at + 8].try_into().expect("eight bytes"))
}

fn mix(data: &[u8; COVERED], at: usize, secret: usize) -> u64 {
    let left = word(data, at) ^ SECRET[secret];
    let right = word(data, at + 8) ^ SECRET[secret + 1];
    let product = u128::from(left) * u128::from(right);
    let mask = u128::from(u64::MAX);
    u64::try_from((product & mask) ^ (product >> 64)).expect("both halves fit")
}

fn avalanche(mut value: u64) -> u64 {
    value ^= value >> 37;
    value = value.wrapping_mul(PRIME_AVALANCHE);
    value ^ (value >> 32)
}
