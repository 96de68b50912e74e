//! A way with a delay, where the kernel has no queue that delays: a relay between two namespaces that holds every
//! packet for as long as it is told, and remembers for how long it really did.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Of so many packets the relay remembers how long it held them.
const REMEMBERED: usize = 50;

pub(crate) struct Relay {
    /// Where to send packets for the other end.
    pub(crate) address: SocketAddr,
    held: [Held; 2],
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

type Held = Arc<Mutex<VecDeque<Duration>>>;

impl Relay {
    /// `near` faces the sender, `beyond` the reflector at `to`.
    pub(crate) fn start(
        near: UdpSocket,
        beyond: UdpSocket,
        to: SocketAddr,
        there: Duration,
        back: Duration,
    ) -> Relay {
        let address = near.local_addr().unwrap();
        let sender = Arc::new(Mutex::new(None));
        let held = [Held::default(), Held::default()];
        let ended = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (index, delay) in [(0, there), (1, back)] {
            let (from, onto) = if index == 0 { (&near, &beyond) } else { (&beyond, &near) };
            let (from, onto) = (from.try_clone().unwrap(), onto.try_clone().unwrap());
            let (queue, queued) = mpsc::channel::<(Instant, Vec<u8>)>();
            let (ended, known) = (Arc::clone(&ended), Arc::clone(&sender));
            // Only to notice the end.
            from.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            threads.push(std::thread::spawn(move || {
                let mut buffer = [0; 2048];
                while !ended.load(Ordering::Relaxed) {
                    let Ok((length, peer)) = from.recv_from(&mut buffer) else { continue };
                    if index == 0 {
                        *known.lock().unwrap() = Some(peer);
                    }
                    if queue.send((Instant::now(), buffer[..length].to_vec())).is_err() {
                        return;
                    }
                }
            }));
            let (held, known) = (Arc::clone(&held[index]), Arc::clone(&sender));
            threads.push(std::thread::spawn(move || {
                for (came, packet) in queued {
                    std::thread::sleep(delay.saturating_sub(came.elapsed()));
                    let target = if index == 0 { Some(to) } else { *known.lock().unwrap() };
                    let mut held = held.lock().unwrap();
                    held.push_back(came.elapsed());
                    if held.len() > REMEMBERED {
                        held.pop_front();
                    }
                    if let Some(target) = target {
                        let _ = onto.send_to(&packet, target);
                    }
                }
            }));
        }
        Relay { address, held, ended, threads }
    }

    /// The least that packets were held lately, there and back.
    pub(crate) fn held(&self) -> Duration {
        let least = |held: &Held| held.lock().unwrap().iter().min().copied().unwrap();
        self.held.iter().map(least).sum()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
