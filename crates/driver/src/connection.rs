//! Connections to the ports of instances. [`crate::Driver::connect`] gives them; an engine whose
//! instances have addresses on this machine makes them with [`dial`].

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::{Error, Result};

/// Nothing that listens on this machine takes longer.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes there and back. Each direction ends for itself: who has shut down the writing half still reads.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

pub type BoxedConnection = Box<dyn Connection>;

/// Connects to the first of the addresses that takes the connection; `port` is what the instance calls
/// it.
pub async fn dial(addresses: &[SocketAddr], port: u16) -> Result<BoxedConnection> {
    let refused = |why: &str| Error::Refused { port, why: why.to_owned() };
    match timeout(CONNECT_TIMEOUT, TcpStream::connect(addresses)).await {
        Ok(Ok(stream)) => {
            // Somebody waits for each piece.
            _ = stream.set_nodelay(true);
            Ok(Box::new(stream))
        }
        Ok(Err(error)) => Err(refused(&error.to_string())),
        Err(_) => Err(refused("it does not take the connection")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn each_direction_ends_for_itself() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut heard = String::new();
            stream.read_to_string(&mut heard).await.unwrap();
            stream.write_all(heard.to_uppercase().as_bytes()).await.unwrap();
        });
        let mut connection = dial(&[address], 80).await.unwrap();
        connection.write_all(b"hello").await.unwrap();
        connection.shutdown().await.unwrap();
        let mut heard = String::new();
        connection.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "HELLO");
        answer.await.unwrap();
    }

    #[tokio::test]
    async fn a_port_on_which_nothing_listens_is_refused_by_its_own_name() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let Err(error) = dial(&[address], 80).await else { panic!("somebody listens") };
        assert_eq!(error.reason(), "ConnectionRefused");
        assert!(error.to_string().contains("its port 80: "), "{error}");
    }
}
