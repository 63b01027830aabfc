// SPDX-License-Identifier: Apache-2.0
//! Queues and rings of the Rust registry behind one C interface (bench/channel_library.hpp). A call takes a batch of
//! messages; those without an operation for batches are called once a message in here. One thread sends and one receives.

use std::cell::UnsafeCell;
use std::ffi::{c_char, CStr};
use std::slice::{from_raw_parts, from_raw_parts_mut};
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use ringbuf::traits::{Consumer as _, Producer as _, Split as _};
use tokio::sync::broadcast::{self, error::TryRecvError};

/// A message of N words.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Message<const N: usize>([u64; N]);

impl<const N: usize> Default for Message<N> {
    fn default() -> Self {
        Message([0; N])
    }
}

/// What both sides do. `send` and `receive` answer with the number of messages; one thread calls each.
pub trait Channel {
    /// # Safety
    /// `messages` holds that many, and only one thread sends.
    unsafe fn send(&self, messages: *const u8, count: usize) -> usize;
    /// # Safety
    /// `out` has room for that many, and only one thread receives.
    unsafe fn receive(&self, out: *mut u8, count: usize) -> usize;
    fn lost(&self) -> u64 {
        0
    }
    /// Adds up the words of up to `most` messages where they lie; for kinds that can.
    ///
    /// # Safety
    /// Only one thread receives.
    unsafe fn add_up(&self, _most: usize, _seen: &mut Seen) -> usize {
        usize::MAX
    }
}

/// What was seen of messages that were not copied: the sum of all words, and the first words of the first and the last.
#[repr(C)]
pub struct Seen {
    sum: u64,
    first: u64,
    last: u64,
}

impl Seen {
    fn add<const N: usize>(&mut self, messages: &[Message<N>], begins: bool) {
        if let (Some(first), Some(last)) = (messages.first(), messages.last()) {
            if begins {
                self.first = first.0[0];
            }
            self.last = last.0[0];
        }
        for message in messages {
            self.sum = message.0.iter().fold(self.sum, |sum, word| sum.wrapping_add(*word));
        }
    }
}

/// Each half alone in its lines: the two threads share nothing here.
#[repr(align(128))]
struct Half<T>(UnsafeCell<T>);

impl<T> Half<T> {
    fn new(value: T) -> Self {
        Half(UnsafeCell::new(value))
    }
    #[allow(clippy::mut_from_ref)]
    unsafe fn get(&self) -> &mut T {
        &mut *self.0.get()
    }
}

struct Rtrb<const N: usize> {
    producer: Half<rtrb::Producer<Message<N>>>,
    consumer: Half<rtrb::Consumer<Message<N>>>,
}

impl<const N: usize> Channel for Rtrb<N> {
    unsafe fn send(&self, messages: *const u8, count: usize) -> usize {
        let from = from_raw_parts(messages.cast::<Message<N>>(), count);
        let producer = self.producer.get();
        if count == 1 {
            return usize::from(producer.push(from[0]).is_ok());
        }
        producer.push_partial_slice(from).0.len()
    }
    unsafe fn receive(&self, out: *mut u8, count: usize) -> usize {
        let to = from_raw_parts_mut(out.cast::<Message<N>>(), count);
        let consumer = self.consumer.get();
        if count == 1 {
            return consumer.pop().map_or(0, |message| {
                to[0] = message;
                1
            });
        }
        consumer.pop_partial_slice(to).0.len()
    }
    unsafe fn add_up(&self, most: usize, seen: &mut Seen) -> usize {
        let consumer = self.consumer.get();
        let count = consumer.slots().min(most);
        let Ok(chunk) = consumer.read_chunk(count) else { return 0 };
        let (begin, end) = chunk.as_slices();
        seen.add(begin, true);
        seen.add(end, begin.is_empty());
        chunk.commit_all();
        count
    }
}

struct RingBuf<const N: usize> {
    producer: Half<ringbuf::HeapProd<Message<N>>>,
    consumer: Half<ringbuf::HeapCons<Message<N>>>,
}

impl<const N: usize> Channel for RingBuf<N> {
    unsafe fn send(&self, messages: *const u8, count: usize) -> usize {
        self.producer.get().push_slice(from_raw_parts(messages.cast::<Message<N>>(), count))
    }
    unsafe fn receive(&self, out: *mut u8, count: usize) -> usize {
        self.consumer.get().pop_slice(from_raw_parts_mut(out.cast::<Message<N>>(), count))
    }
    unsafe fn add_up(&self, most: usize, seen: &mut Seen) -> usize {
        let consumer = self.consumer.get();
        let (begin, end) = consumer.as_slices();
        let begin = &begin[..begin.len().min(most)];
        let end = &end[..end.len().min(most - begin.len())];
        seen.add(begin, true);
        seen.add(end, begin.is_empty());
        let count = begin.len() + end.len();
        consumer.skip(count)
    }
}

struct Crossbeam<const N: usize>(ArrayQueue<Message<N>>);

impl<const N: usize> Channel for Crossbeam<N> {
    unsafe fn send(&self, messages: *const u8, count: usize) -> usize {
        let from = from_raw_parts(messages.cast::<Message<N>>(), count);
        from.iter().take_while(|message| self.0.push(**message).is_ok()).count()
    }
    unsafe fn receive(&self, out: *mut u8, count: usize) -> usize {
        let to = from_raw_parts_mut(out.cast::<Message<N>>(), count);
        for (i, place) in to.iter_mut().enumerate() {
            match self.0.pop() {
                Some(message) => *place = message,
                None => return i,
            }
        }
        count
    }
}

struct CrossbeamChannel<const N: usize> {
    sender: crossbeam_channel::Sender<Message<N>>,
    receiver: crossbeam_channel::Receiver<Message<N>>,
}

impl<const N: usize> Channel for CrossbeamChannel<N> {
    unsafe fn send(&self, messages: *const u8, count: usize) -> usize {
        let from = from_raw_parts(messages.cast::<Message<N>>(), count);
        from.iter().take_while(|message| self.sender.try_send(**message).is_ok()).count()
    }
    unsafe fn receive(&self, out: *mut u8, count: usize) -> usize {
        let to = from_raw_parts_mut(out.cast::<Message<N>>(), count);
        for (i, place) in to.iter_mut().enumerate() {
            match self.receiver.try_recv() {
                Ok(message) => *place = message,
                Err(_) => return i,
            }
        }
        count
    }
}

struct Tokio<const N: usize> {
    sender: Half<broadcast::Sender<Message<N>>>,
    receiver: Half<(broadcast::Receiver<Message<N>>, u64)>,
}

impl<const N: usize> Channel for Tokio<N> {
    unsafe fn send(&self, messages: *const u8, count: usize) -> usize {
        let from = from_raw_parts(messages.cast::<Message<N>>(), count);
        let sender = self.sender.get();
        from.iter().take_while(|message| sender.send(**message).is_ok()).count()
    }
    unsafe fn receive(&self, out: *mut u8, count: usize) -> usize {
        let to = from_raw_parts_mut(out.cast::<Message<N>>(), count);
        let (receiver, lost) = self.receiver.get();
        let mut got = 0;
        while got < count {
            match receiver.try_recv() {
                Ok(message) => {
                    to[got] = message;
                    got += 1;
                }
                Err(TryRecvError::Lagged(missed)) => *lost += missed,
                Err(_) => break,
            }
        }
        got
    }
    fn lost(&self) -> u64 {
        unsafe { self.receiver.get().1 }
    }
}

const NAMES: [&CStr; 5] = [
    c"rtrb (Rust)",
    c"ringbuf (Rust)",
    c"crossbeam ArrayQueue (Rust)",
    c"crossbeam-channel (Rust)",
    c"tokio::sync::broadcast (Rust)",
];
const VERSIONS: [&CStr; 5] =
    [c"rtrb 0.4.1", c"ringbuf 0.6.0", c"crossbeam-queue 0.3.14", c"crossbeam-channel 0.5.17", c"tokio 1.54.1"];
const FIRST_RING: u32 = 4; // those before are queues
const IN_PLACE: u32 = 2; // and of these the first ones can be read where a message lies

fn make<const N: usize>(kind: u32, capacity: usize) -> Option<Box<dyn Channel>> {
    match kind {
        0 => {
            let (producer, consumer) = rtrb::RingBuffer::new(capacity);
            Some(Box::new(Rtrb::<N> { producer: Half::new(producer), consumer: Half::new(consumer) }))
        }
        1 => {
            let (producer, consumer) = ringbuf::HeapRb::new(capacity).split();
            Some(Box::new(RingBuf::<N> { producer: Half::new(producer), consumer: Half::new(consumer) }))
        }
        2 => Some(Box::new(Crossbeam::<N>(ArrayQueue::new(capacity)))),
        3 => {
            let (sender, receiver) = crossbeam_channel::bounded(capacity);
            Some(Box::new(CrossbeamChannel::<N> { sender, receiver }))
        }
        4 => {
            let (sender, receiver) = broadcast::channel(capacity);
            Some(Box::new(Tokio::<N> { sender: Half::new(sender), receiver: Half::new((receiver, 0)) }))
        }
        _ => None,
    }
}

#[no_mangle]
pub extern "C" fn channel_kinds() -> u32 {
    NAMES.len() as u32
}

/// Null for a kind that is none.
#[no_mangle]
pub extern "C" fn channel_name(kind: u32) -> *const c_char {
    NAMES.get(kind as usize).map_or(std::ptr::null(), |name| name.as_ptr())
}

/// Null for a kind that is none.
#[no_mangle]
pub extern "C" fn channel_version(kind: u32) -> *const c_char {
    VERSIONS.get(kind as usize).map_or(std::ptr::null(), |version| version.as_ptr())
}

/// 0: a queue of one producer and one consumer; 1: a ring that counts what a reader lost; 2: a ring that does not.
#[no_mangle]
pub extern "C" fn channel_form(kind: u32) -> u32 {
    u32::from(kind >= FIRST_RING)
}

/// Null for a kind or a size of message that is none.
#[no_mangle]
pub extern "C" fn channel_new(kind: u32, message_bytes: usize, capacity: usize, _name: *const c_char) -> *mut Arc<dyn Channel> {
    let made = match message_bytes {
        8 => make::<1>(kind, capacity),
        64 => make::<8>(kind, capacity),
        1024 => make::<128>(kind, capacity),
        _ => None,
    };
    made.map_or(std::ptr::null_mut(), |channel| Box::into_raw(Box::new(Arc::from(channel))))
}

/// # Safety
/// `channel` came from channel_new and is not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn channel_free(channel: *mut Arc<dyn Channel>) {
    drop(Box::from_raw(channel));
}

/// Whether the end can be used. Nothing is to be done here.
#[no_mangle]
pub extern "C" fn channel_open(_channel: *mut Arc<dyn Channel>, _sends: bool) -> bool {
    true
}

/// # Safety
/// As Channel::send; `channel` came from channel_new.
#[no_mangle]
pub unsafe extern "C" fn channel_send(channel: *const Arc<dyn Channel>, messages: *const u8, count: usize) -> usize {
    (**channel).send(messages, count)
}

/// # Safety
/// As Channel::receive; `channel` came from channel_new.
#[no_mangle]
pub unsafe extern "C" fn channel_receive(channel: *const Arc<dyn Channel>, out: *mut u8, count: usize) -> usize {
    (**channel).receive(out, count)
}

/// Whether channel_add_up may be called.
#[no_mangle]
pub extern "C" fn channel_in_place(kind: u32) -> bool {
    kind < IN_PLACE
}

/// # Safety
/// As Channel::add_up; `channel` came from channel_new.
#[no_mangle]
pub unsafe extern "C" fn channel_add_up(channel: *const Arc<dyn Channel>, most: usize, seen: *mut Seen) -> usize {
    (**channel).add_up(most, &mut *seen)
}

/// # Safety
/// `channel` came from channel_new; called on the thread that receives.
#[no_mangle]
pub unsafe extern "C" fn channel_lost(channel: *const Arc<dyn Channel>) -> u64 {
    (**channel).lost()
}
