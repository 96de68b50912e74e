//! A port of this machine that is a test's own, also while nobody listens there. Used by
//! [`crate::Tombolo`] and [`crate::registry`], whose programs end and come back.

use tokio::net::TcpSocket;

/// Bound and never listened on. A program that listens there, as all do with `SO_REUSEADDR`, may; but
/// the kernel gives the port to nobody who asks for any, and so none is gone between two starts.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _socket: TcpSocket,
}

impl Port {
    pub(crate) fn reserve() -> Port {
        let socket = TcpSocket::new_v4().expect("a socket can be made");
        socket.set_reuseaddr(true).expect("a socket can be shared");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("a port is free");
        let number = socket.local_addr().expect("it is bound").port();
        Port { number, _socket: socket }
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn whoever_knows_the_port_may_listen_there_again_and_again() {
        let port = Port::reserve();
        for _ in 0..3 {
            let listener = TcpListener::bind(port.address()).unwrap();
            TcpStream::connect(port.address()).unwrap();
            listener.accept().unwrap();
        }
        assert!(TcpStream::connect(port.address()).is_err(), "nobody listens");
        let others = (0..1000).map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap());
        let number = |other: TcpListener| other.local_addr().unwrap().port();
        assert!(others.map(number).all(|other| other != port.number));
    }
}
