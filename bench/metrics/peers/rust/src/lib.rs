// SPDX-License-Identifier: Apache-2.0
//! Percentile sketches behind one C interface. A call takes many values, so that the call itself is not what is timed.

use std::ffi::{c_char, CStr};

use datasketches::common::SearchCriteria;
use datasketches::kll::KllSketch;
use datasketches::tdigest::TDigestMut;
use hdrhistogram::Histogram;
use sketches_ddsketch::{Config, DDSketch};

/// Values beyond are counted there: 18 minutes, as in Holdfast's own histogram.
const GREATEST: u64 = 1 << 40;

pub enum Sketch {
    Hdr(Histogram<u64>),
    Dd(DDSketch),
    Digest(TDigestMut),
    Kll(KllSketch<i64>),
}

const NAMES: [&CStr; 5] = [
    c"HdrHistogram (Rust), 2 digits",
    c"HdrHistogram (Rust), 3 digits",
    c"DDSketch (Rust), 1 %",
    c"t-digest (Apache DataSketches, Rust), k = 200",
    c"KLL (Apache DataSketches, Rust), k = 200",
];
const VERSIONS: [&CStr; 5] = [
    c"hdrhistogram 7.6.0",
    c"hdrhistogram 7.6.0",
    c"sketches-ddsketch 0.4.2",
    c"datasketches 0.6.0",
    c"datasketches 0.6.0",
];

#[no_mangle]
pub extern "C" fn sketch_kinds() -> u32 {
    NAMES.len() as u32
}

/// Null for a kind that is none.
#[no_mangle]
pub extern "C" fn sketch_name(kind: u32) -> *const c_char {
    NAMES.get(kind as usize).map_or(std::ptr::null(), |name| name.as_ptr())
}

/// Null for a kind that is none.
#[no_mangle]
pub extern "C" fn sketch_version(kind: u32) -> *const c_char {
    VERSIONS.get(kind as usize).map_or(std::ptr::null(), |version| version.as_ptr())
}

/// Null for a kind that is none.
#[no_mangle]
pub extern "C" fn sketch_new(kind: u32) -> *mut Sketch {
    let made = match kind {
        0 => Histogram::new_with_bounds(1, GREATEST, 2).ok().map(Sketch::Hdr),
        1 => Histogram::new_with_bounds(1, GREATEST, 3).ok().map(Sketch::Hdr),
        2 => Some(Sketch::Dd(DDSketch::new(Config::new(0.01, 2048, 1.0)))),
        3 => TDigestMut::new(200).ok().map(Sketch::Digest),
        4 => KllSketch::new(200).ok().map(Sketch::Kll),
        _ => None,
    };
    made.map_or(std::ptr::null_mut(), |sketch| Box::into_raw(Box::new(sketch)))
}

/// # Safety
/// `sketch` is null or from `sketch_new`, and is used no more.
#[no_mangle]
pub unsafe extern "C" fn sketch_free(sketch: *mut Sketch) {
    if !sketch.is_null() {
        drop(unsafe { Box::from_raw(sketch) });
    }
}

/// # Safety
/// `sketch` is from `sketch_new`; `values` leads to `count` numbers.
#[no_mangle]
pub unsafe extern "C" fn sketch_record(sketch: *mut Sketch, values: *const u64, count: usize) {
    let values = unsafe { std::slice::from_raw_parts(values, count) };
    match unsafe { &mut *sketch } {
        Sketch::Hdr(histogram) => values.iter().for_each(|&value| histogram.saturating_record(value)),
        Sketch::Dd(sketch) => values.iter().for_each(|&value| sketch.add(value as f64)),
        Sketch::Digest(digest) => values.iter().for_each(|&value| digest.update(value as f64)),
        Sketch::Kll(sketch) => values.iter().for_each(|&value| sketch.update(value as i64)),
    }
}

/// Not a number where there is no answer.
///
/// # Safety
/// `sketch` is from `sketch_new`.
#[no_mangle]
pub unsafe extern "C" fn sketch_quantile(sketch: *mut Sketch, q: f64) -> f64 {
    match unsafe { &mut *sketch } {
        Sketch::Hdr(histogram) => {
            // The middle of the bucket is nearer to its samples than the end that the library answers with.
            let highest = histogram.value_at_quantile(q);
            (histogram.lowest_equivalent(highest) as f64 + histogram.highest_equivalent(highest) as f64) / 2.0
        }
        Sketch::Dd(sketch) => sketch.quantile(q).ok().flatten().unwrap_or(f64::NAN),
        Sketch::Digest(digest) => digest.quantile(q).ok().flatten().unwrap_or(f64::NAN),
        Sketch::Kll(sketch) => {
            sketch.quantile(q, SearchCriteria::Inclusive).ok().flatten().map_or(f64::NAN, |value| value as f64)
        }
    }
}

/// What its counts or items take; of the growing ones, the serialised form.
///
/// # Safety
/// `sketch` is from `sketch_new`.
#[no_mangle]
pub unsafe extern "C" fn sketch_bytes(sketch: *mut Sketch) -> usize {
    match unsafe { &mut *sketch } {
        Sketch::Hdr(histogram) => histogram.distinct_values() * std::mem::size_of::<u64>(),
        Sketch::Dd(sketch) => sketch.length() * std::mem::size_of::<u64>(),
        Sketch::Digest(digest) => digest.serialize().len(),
        Sketch::Kll(sketch) => sketch.serialize().len(),
    }
}
