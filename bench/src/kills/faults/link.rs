//! A network link that can be cut: a TCP proxy on the loopback address.

use std::net::Ipv4Addr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
};

/// A link to a port. It ends with this.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) port: u16,
    is_cut: watch::Sender<bool>,
    _task: JoinSet<()>,
}

impl Link {
    /// Starts to forward connections to a port.
    pub(super) async fn to(target: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (is_cut, cut) = watch::channel(false);
        let mut task = JoinSet::new();
        task.spawn(accept(listener, target, cut));
        Ok(Self { port, is_cut, _task: task })
    }

    /// Cuts or restores the link. While it is cut, connections stay open and nothing passes; afterwards, everything that
    /// was sent arrives, however late.
    pub(super) fn cut(&self, is_cut: bool) {
        self.is_cut.send_replace(is_cut);
    }
}

async fn accept(listener: TcpListener, target: u16, cut: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => { connections.spawn(forward(stream, target, cut.clone())); }
                Err(error) => eprintln!("a link cannot accept a connection: {error}"),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn forward(near: TcpStream, target: u16, mut cut: watch::Receiver<bool>) {
    if cut.wait_for(|cut| !cut).await.is_err() {
        return;
    }
    // If nothing listens, the connection ends as it would without the link.
    let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
    tokio::join!(copy(near_read, far_write, cut.clone()), copy(far_read, near_write, cut));
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut cut: watch::Receiver<bool>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        // The end of a connection does not pass a cut either.
        if cut.wait_for(|cut| !cut).await.is_err() || read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_passes_a_cut_and_everything_arrives_afterwards() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let link = Link::to(listener.local_addr().unwrap().port()).await.unwrap();
        let mut near = TcpStream::connect((Ipv4Addr::LOCALHOST, link.port)).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        let mut received = [0; 1];
        near.write_all(b"a").await.unwrap();
        far.read_exact(&mut received).await.unwrap();
        link.cut(true);
        near.write_all(b"b").await.unwrap();
        drop(near);
        // A link that leaks would deliver it while this connection, which is not cut, carries a byte there and back.
        let mut other = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut answering, _) = listener.accept().await.unwrap();
        other.write_all(b"x").await.unwrap();
        answering.read_exact(&mut received).await.unwrap();
        assert_eq!(far.try_read(&mut received).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        link.cut(false);
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"b");
    }
}
