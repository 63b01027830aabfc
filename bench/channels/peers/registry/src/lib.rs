// SPDX-License-Identifier: Apache-2.0
//! Queues and rings of the Rust registry behind one C interface (bench/channel_library.hpp). A call takes a batch of
//! messages; those without an operation for batches are called once a message in here. One thread sends and one receives.

use std::cell::UnsafeCell;
use std::ffi::{c_char, CStr};
use std::slice::{from_raw_parts, from_raw_parts_mut, from_ref};
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use disruptor::Producer as _;
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

/// Its number of places, one more than it holds, is a constant of the type.
struct Heapless<const N: usize, const PLACES: usize> {
    producer: Half<heapless::spsc::Producer<'static, Message<N>, PLACES>>,
    consumer: Half<heapless::spsc::Consumer<'static, Message<N>, PLACES>>,
    queue: *mut heapless::spsc::Queue<Message<N>, PLACES>,
}

impl<const N: usize, const PLACES: usize> Heapless<N, PLACES> {
    fn boxed() -> Option<Box<dyn Channel>> {
        // All of its places may lie on a stack before they are on the heap.
        let make = || Box::new(heapless::spsc::Queue::<Message<N>, PLACES>::new());
        let made = std::thread::Builder::new().stack_size(64 << 20).spawn(make).ok()?.join().ok()?;
        let queue = Box::into_raw(made);
        // Both ends are gone before the queue, see drop().
        let (producer, consumer) = unsafe { &mut *queue }.split();
        Some(Box::new(Self { producer: Half::new(producer), consumer: Half::new(consumer), queue }))
    }
}

impl<const N: usize, const PLACES: usize> Drop for Heapless<N, PLACES> {
    fn drop(&mut self) {
        // The ends are references without a destructor: nothing looks through them any more.
        drop(unsafe { Box::from_raw(self.queue) });
    }
}

impl<const N: usize, const PLACES: usize> Channel for Heapless<N, PLACES> {
    unsafe fn send(&self, messages: *const u8, count: usize) -> usize {
        let from = from_raw_parts(messages.cast::<Message<N>>(), count);
        let producer = self.producer.get();
        from.iter().take_while(|message| producer.enqueue(**message).is_ok()).count()
    }
    unsafe fn receive(&self, out: *mut u8, count: usize) -> usize {
        let to = from_raw_parts_mut(out.cast::<Message<N>>(), count);
        let consumer = self.consumer.get();
        for (i, place) in to.iter_mut().enumerate() {
            match consumer.dequeue() {
                Some(message) => *place = message,
                None => return i,
            }
        }
        count
    }
    unsafe fn add_up(&self, most: usize, seen: &mut Seen) -> usize {
        let consumer = self.consumer.get();
        for i in 0..most {
            let Some(message) = consumer.peek() else { return i };
            seen.add(from_ref(message), i == 0);
            // It cannot be empty: its oldest message was just looked at.
            let _ = consumer.dequeue();
        }
        most
    }
}

/// One producer, and one consumer that polls on a thread of its own. A batch goes whole or not at all.
struct Disruptor<const N: usize> {
    producer: Half<disruptor::SingleProducer<Message<N>, disruptor::SingleConsumerBarrier>>,
    poller: Half<disruptor::EventPoller<Message<N>, disruptor::SingleProducerBarrier>>,
}

impl<const N: usize> Disruptor<N> {
    fn new(capacity: usize) -> Self {
        let places = capacity.next_power_of_two(); // it takes no other number
        let (poller, builder) =
            disruptor::build_single_producer(places, Message::<N>::default, disruptor::BusySpin).new_event_poller();
        Disruptor { producer: Half::new(builder.build()), poller: Half::new(poller) }
    }
}

impl<const N: usize> Channel for Disruptor<N> {
    unsafe fn send(&self, messages: *const u8, count: usize) -> usize {
        let from = from_raw_parts(messages.cast::<Message<N>>(), count);
        let producer = self.producer.get();
        if count == 1 {
            return usize::from(producer.try_publish(|place| *place = from[0]).is_ok());
        }
        let sent = producer.try_batch_publish(count, |places| {
            for (place, message) in places.zip(from) {
                *place = *message;
            }
        });
        sent.map_or(0, |_| count)
    }
    unsafe fn receive(&self, out: *mut u8, count: usize) -> usize {
        let to = from_raw_parts_mut(out.cast::<Message<N>>(), count);
        let Ok(mut events) = self.poller.get().take(count as u64) else { return 0 };
        let mut got = 0;
        for (place, message) in to.iter_mut().zip(&mut events) {
            *place = *message;
            got += 1;
        }
        got
    }
    unsafe fn add_up(&self, most: usize, seen: &mut Seen) -> usize {
        let Ok(mut events) = self.poller.get().take(most as u64) else { return 0 };
        let mut got = 0;
        for message in &mut events {
            seen.add(from_ref(message), got == 0);
            got += 1;
        }
        got
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

struct Crossfire<const N: usize> {
    sender: Half<crossfire::Tx<crossfire::spsc::Array<Message<N>>>>,
    receiver: Half<crossfire::Rx<crossfire::spsc::Array<Message<N>>>>,
}

impl<const N: usize> Channel for Crossfire<N> {
    unsafe fn send(&self, messages: *const u8, count: usize) -> usize {
        let from = from_raw_parts(messages.cast::<Message<N>>(), count);
        let sender = self.sender.get();
        from.iter().take_while(|message| sender.try_send(**message).is_ok()).count()
    }
    unsafe fn receive(&self, out: *mut u8, count: usize) -> usize {
        let to = from_raw_parts_mut(out.cast::<Message<N>>(), count);
        let receiver = self.receiver.get();
        for (i, place) in to.iter_mut().enumerate() {
            match receiver.try_recv() {
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

const NAMES: [&CStr; 8] = [
    c"rtrb (Rust)",
    c"ringbuf (Rust)",
    c"heapless spsc (Rust)",
    c"disruptor (Rust)",
    c"crossbeam ArrayQueue (Rust)",
    c"crossbeam-channel (Rust)",
    c"crossfire spsc (Rust)",
    c"tokio::sync::broadcast (Rust)",
];
const VERSIONS: [&CStr; 8] = [
    c"rtrb 0.4.1",
    c"ringbuf 0.6.0",
    c"heapless 0.8.0",
    c"disruptor 4.4.0",
    c"crossbeam-queue 0.3.14",
    c"crossbeam-channel 0.5.17",
    c"crossfire 3.1.22",
    c"tokio 1.54.1",
];
const FIRST_RING: u32 = 7; // those before are queues
const IN_PLACE: u32 = 4; // and of these the first ones can be read where a message lies

/// SMALL, MIDDLE and LARGE are messages of N words in rings of 64 KiB, 256 KiB and 4 MiB, for whom a size is a type.
fn make<const N: usize, const SMALL: usize, const MIDDLE: usize, const LARGE: usize>(
    kind: u32,
    capacity: usize,
) -> Option<Box<dyn Channel>> {
    match kind {
        0 => {
            let (producer, consumer) = rtrb::RingBuffer::new(capacity);
            Some(Box::new(Rtrb::<N> { producer: Half::new(producer), consumer: Half::new(consumer) }))
        }
        1 => {
            let (producer, consumer) = ringbuf::HeapRb::new(capacity).split();
            Some(Box::new(RingBuf::<N> { producer: Half::new(producer), consumer: Half::new(consumer) }))
        }
        2 if capacity <= SMALL => Heapless::<N, SMALL>::boxed(),
        2 if capacity <= MIDDLE => Heapless::<N, MIDDLE>::boxed(),
        2 if capacity <= LARGE => Heapless::<N, LARGE>::boxed(),
        3 => Some(Box::new(Disruptor::<N>::new(capacity))),
        4 => Some(Box::new(Crossbeam::<N>(ArrayQueue::new(capacity)))),
        5 => {
            let (sender, receiver) = crossbeam_channel::bounded(capacity);
            Some(Box::new(CrossbeamChannel::<N> { sender, receiver }))
        }
        6 => {
            let (sender, receiver) = crossfire::spsc::bounded_blocking(capacity);
            Some(Box::new(Crossfire::<N> { sender: Half::new(sender), receiver: Half::new(receiver) }))
        }
        7 => {
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
        8 => make::<1, 8192, 32_768, 524_288>(kind, capacity),
        64 => make::<8, 1024, 4096, 65_536>(kind, capacity),
        1024 => make::<128, 64, 256, 4096>(kind, capacity),
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
