//! The trivial competitor: a process of this program that passes bytes through, and looks at none.

use tokio::net::{TcpListener, TcpStream};

/// Passes connections on `address` to `upstream` until the process is ended.
pub(crate) fn serve(address: &str, upstream: &str) -> ! {
    crate::block_on(async {
        let listener = TcpListener::bind(address).await.expect("that address");
        loop {
            let Ok((mut client, _)) = listener.accept().await else {
                continue;
            };
            let upstream = upstream.to_owned();
            tokio::spawn(async move {
                let mut upstream = TcpStream::connect(upstream).await?;
                client.set_nodelay(true)?;
                upstream.set_nodelay(true)?;
                tokio::io::copy_bidirectional(&mut client, &mut upstream).await
            });
        }
    })
}
