// SPDX-License-Identifier: Apache-2.0
//! iceoryx2's publish-subscribe behind the C interface of bench/channel_library.hpp: one publisher and one subscriber, each
//! with a node of its own, over the shared memory of its ipc service. Samples are written where they will lie and read
//! where they lie; a copy is made only because the interface hands over memory of the caller's.
//!
//! Kind 0 is a queue: no overflow, and a sample that finds the subscriber's buffer full is sent again. Kind 1 is a ring: a
//! full buffer loses its oldest sample, of which iceoryx2 keeps no count.
//!
//! All that iceoryx2 makes in memory and files begins with the name of the channel, and lies in /dev/shm: it
//! goes with the channel, and where the process is killed with everything else of that run.

use std::cell::UnsafeCell;
use std::ffi::{c_char, CStr};
use std::slice::{from_raw_parts, from_raw_parts_mut};

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;

type Failure = Box<dyn std::error::Error>;

/// A message of N words.
#[derive(Debug, Clone, Copy, ZeroCopySend)]
#[repr(C)]
pub struct Message<const N: usize>([u64; N]);

pub trait Channel {
    fn open(&self, sends: bool) -> Result<(), Failure>;
    /// # Safety
    /// `messages` holds that many, and only one thread sends.
    unsafe fn send(&self, messages: *const u8, count: usize) -> Result<usize, Failure>;
    /// # Safety
    /// `out` has room for that many, and only one thread receives.
    unsafe fn receive(&self, out: *mut u8, count: usize) -> Result<usize, Failure>;
    /// Adds up the words of up to `most` samples where they lie.
    ///
    /// # Safety
    /// Only one thread receives.
    unsafe fn add_up(&self, most: usize, seen: &mut Seen) -> Result<usize, Failure>;
}

/// What was seen of messages that were not copied: the sum of all words, and the first words of the first and the last.
#[repr(C)]
pub struct Seen {
    sum: u64,
    first: u64,
    last: u64,
}

struct End<Port> {
    port: Port,
    _node: Node<ipc::Service>,
}

/// Each end is made and used by one thread, and taken down when both have stopped.
struct PublishSubscribe<const N: usize> {
    name: String,
    capacity: usize,
    overflow: bool,
    sender: UnsafeCell<Option<End<Publisher<ipc::Service, Message<N>, ()>>>>,
    receiver: UnsafeCell<Option<End<Subscriber<ipc::Service, Message<N>, ()>>>>,
}

const FOLDER: &str = "/dev/shm";

impl<const N: usize> PublishSubscribe<N> {
    fn prefix(&self) -> String {
        self.name.replace('/', "-")
    }
}

impl<const N: usize> Drop for PublishSubscribe<N> {
    fn drop(&mut self) {
        *self.sender.get_mut() = None;
        *self.receiver.get_mut() = None;
        let Ok(entries) = std::fs::read_dir(FOLDER) else { return };
        let own = format!("{}-ice", self.prefix());
        for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)) {
            let _ = std::fs::remove_file(entry.path()).or_else(|_| std::fs::remove_dir_all(entry.path()));
        }
    }
}

impl<const N: usize> Channel for PublishSubscribe<N> {
    fn open(&self, sends: bool) -> Result<(), Failure> {
        let mut config = Config::default();
        config.global.prefix = FileName::new(format!("{}-ice_", self.prefix()).as_bytes()).map_err(|_| "no prefix")?;
        let root = format!("{FOLDER}/{}-iceoryx2", self.prefix());
        config.global.set_root_path(&Path::new(root.as_bytes()).map_err(|_| "no root")?);
        let node = NodeBuilder::new().config(&config).create::<ipc::Service>()?;
        let service = node
            .service_builder(&self.name.as_str().try_into()?)
            .publish_subscribe::<Message<N>>()
            .enable_safe_overflow(self.overflow)
            .subscriber_max_buffer_size(self.capacity)
            .subscriber_max_borrowed_samples(2)
            .history_size(0)
            .max_publishers(1)
            .max_subscribers(1)
            .open_or_create()?;
        if sends {
            let port = service
                .publisher_builder()
                .max_loaned_samples(2)
                .backpressure_strategy(BackpressureStrategy::DiscardData)
                .create()?;
            unsafe { *self.sender.get() = Some(End { port, _node: node }) };
        } else {
            let port = service.subscriber_builder().buffer_size(self.capacity).create()?;
            unsafe { *self.receiver.get() = Some(End { port, _node: node }) };
        }
        Ok(())
    }

    unsafe fn send(&self, messages: *const u8, count: usize) -> Result<usize, Failure> {
        let publisher = &(*self.sender.get()).as_ref().ok_or("no publisher is open")?.port;
        for (i, message) in from_raw_parts(messages.cast::<Message<N>>(), count).iter().enumerate() {
            let sample = publisher.loan_uninit()?;
            if sample.write_payload(*message).send()? == 0 {
                return Ok(i); // the subscriber's buffer is full
            }
        }
        Ok(count)
    }

    unsafe fn receive(&self, out: *mut u8, count: usize) -> Result<usize, Failure> {
        let subscriber = &(*self.receiver.get()).as_ref().ok_or("no subscriber is open")?.port;
        for (i, place) in from_raw_parts_mut(out.cast::<Message<N>>(), count).iter_mut().enumerate() {
            match subscriber.receive()? {
                Some(sample) => *place = *sample,
                None => return Ok(i),
            }
        }
        Ok(count)
    }

    unsafe fn add_up(&self, most: usize, seen: &mut Seen) -> Result<usize, Failure> {
        let subscriber = &(*self.receiver.get()).as_ref().ok_or("no subscriber is open")?.port;
        for i in 0..most {
            let Some(sample) = subscriber.receive()? else { return Ok(i) };
            let words = &sample.payload().0;
            seen.last = words[0];
            if i == 0 {
                seen.first = words[0];
            }
            seen.sum = words.iter().fold(seen.sum, |sum, word| sum.wrapping_add(*word));
        }
        Ok(most)
    }
}

fn make<const N: usize>(overflow: bool, capacity: usize, name: &str) -> Box<dyn Channel> {
    Box::new(PublishSubscribe::<N> {
        name: name.to_string(),
        capacity,
        overflow,
        sender: UnsafeCell::new(None),
        receiver: UnsafeCell::new(None),
    })
}

/// What a failure answers: no number of messages.
const FAILED: usize = usize::MAX;

fn told<T>(answer: Result<T, Failure>, failed: T) -> T {
    answer.unwrap_or_else(|failure| {
        eprintln!("iceoryx2: {failure}");
        failed
    })
}

#[no_mangle]
pub extern "C" fn channel_kinds() -> u32 {
    2
}

/// Null for a kind that is none.
#[no_mangle]
pub extern "C" fn channel_name(kind: u32) -> *const c_char {
    match kind {
        0 => c"iceoryx2 publish-subscribe".as_ptr(),
        1 => c"iceoryx2 publish-subscribe with overflow".as_ptr(),
        _ => std::ptr::null(),
    }
}

#[no_mangle]
pub extern "C" fn channel_version(_kind: u32) -> *const c_char {
    c"iceoryx2 0.10.0".as_ptr()
}

/// 0: a queue of one producer and one consumer; 1: a ring that counts what a reader lost; 2: a ring that does not.
#[no_mangle]
pub extern "C" fn channel_form(kind: u32) -> u32 {
    2 * u32::from(kind == 1)
}

/// Null for a kind or a size of message that is none.
///
/// # Safety
/// `name` is a text that ends in a zero byte.
#[no_mangle]
pub unsafe extern "C" fn channel_new(kind: u32, message_bytes: usize, capacity: usize, name: *const c_char) -> *mut Box<dyn Channel> {
    set_log_level(LogLevel::Error);
    let name = CStr::from_ptr(name).to_string_lossy();
    let overflow = kind == 1;
    let made = match (kind, message_bytes) {
        (0 | 1, 8) => make::<1>(overflow, capacity, &name),
        (0 | 1, 64) => make::<8>(overflow, capacity, &name),
        (0 | 1, 1024) => make::<128>(overflow, capacity, &name),
        _ => return std::ptr::null_mut(),
    };
    Box::into_raw(Box::new(made))
}

/// # Safety
/// `channel` came from channel_new, is not used afterwards, and both its threads have stopped.
#[no_mangle]
pub unsafe extern "C" fn channel_free(channel: *mut Box<dyn Channel>) {
    drop(Box::from_raw(channel));
}

/// # Safety
/// `channel` came from channel_new; the thread that uses this end calls.
#[no_mangle]
pub unsafe extern "C" fn channel_open(channel: *const Box<dyn Channel>, sends: bool) -> bool {
    told((**channel).open(sends).map(|()| true), false)
}

/// # Safety
/// As Channel::send; `channel` came from channel_new.
#[no_mangle]
pub unsafe extern "C" fn channel_send(channel: *const Box<dyn Channel>, messages: *const u8, count: usize) -> usize {
    told((**channel).send(messages, count), FAILED)
}

/// # Safety
/// As Channel::receive; `channel` came from channel_new.
#[no_mangle]
pub unsafe extern "C" fn channel_receive(channel: *const Box<dyn Channel>, out: *mut u8, count: usize) -> usize {
    told((**channel).receive(out, count), FAILED)
}

/// Whether channel_add_up may be called.
#[no_mangle]
pub extern "C" fn channel_in_place(_kind: u32) -> bool {
    true
}

/// # Safety
/// As Channel::add_up; `channel` came from channel_new.
#[no_mangle]
pub unsafe extern "C" fn channel_add_up(channel: *const Box<dyn Channel>, most: usize, seen: *mut Seen) -> usize {
    told((**channel).add_up(most, &mut *seen), FAILED)
}

#[no_mangle]
pub extern "C" fn channel_lost(_channel: *const Box<dyn Channel>) -> u64 {
    0
}
