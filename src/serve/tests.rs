//! Tests the server for score pages, and its limits.

use super::*;

#[test]
fn only_names_that_nobody_can_register_are_allowed() {
    let allowed = ["gpu.example.com".to_owned()];
    let is_allowed = |host: &str| is_name_allowed(host, &allowed);
    for host in [
        "10.0.0.1:9400",
        "[::1]:9400",
        "127.0.0.1",
        "localhost:80",
        "gpuctl-score",
        "score.gpuctl.svc:9400",
        "a.b.svc.cluster.local.",
        "GPU.example.com:1",
        "",
    ] {
        assert!(is_allowed(host), "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:9400",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "svc.evil.example.",
        "gpu.example.com.evil.example",
        "user@evil.example",
        "10.0.0.1/evil.example",
    ] {
        assert!(!is_allowed(host), "{host}");
    }
}

#[test]
fn a_peer_with_many_connections_gives_way_to_others() {
    let peer = |last: u8| IpAddr::from([10, 0, 0, last]);
    let mut connections = Connections::default();
    let mut admitted = Vec::new();
    for last in [1, 2, 3, 4] {
        admitted.extend((0..MOST_PER_PEER).map(|_| connections.admit(peer(last))));
    }
    assert!(
        admitted.iter().all(|(slot, _)| !slot.is_spare)
            && admitted[0].0.time_limit == OPEN_WITHIN
            && admitted[63].0.time_limit == BRIEF
    );
    assert!(connections.admit(peer(1)).0.is_spare, "the share of a peer");
    assert!(
        !connections.admit(peer(5)).0.is_spare,
        "a new peer replaces the oldest connection of a large one"
    );
    assert!(
        admitted[0]
            .1
            .try_recv()
            .is_err_and(|error| error == oneshot::error::TryRecvError::Closed)
    );
    assert_eq!(connections.regular.len(), MOST);
}

#[test]
fn a_new_connection_is_admitted_beyond_the_limits() {
    let mut connections = Connections::default();
    let admitted: Vec<_> = (0..1000)
        .map(|_| connections.admit(IpAddr::from([10, 0, 0, 1])))
        .collect();
    assert_eq!(
        (connections.regular.len(), connections.spare.len()),
        (MOST_PER_PEER, SPARE)
    );
    let last = admitted.last().unwrap().0;
    assert!(last.is_spare && connections.spare.contains_key(&last.number));
    connections.leave(last);
    assert_eq!(connections.spare.len(), SPARE - 1);
}

async fn get(address: SocketAddr, path: &str, host: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read =
        tokio::time::timeout(Duration::from_secs(10), stream.read_to_string(&mut answer)).await;
    read.expect("it answers").unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn health_answers_while_one_peer_holds_all_connections() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let page = |is_always_served| HttpPage {
            code: 200,
            media: "text/plain",
            text: "x".into(),
            is_always_served,
        };
        let pages = Pages::default();
        pages
            .borrow_mut()
            .extend([("/health", page(true)), ("/results", page(false))]);
        let server = PageServer::open("127.0.0.1:0", &["gpu.example.com".to_owned()], pages)
            .await
            .unwrap();
        let address = server.address().unwrap();
        let attack = async {
            assert_eq!(
                get(address, "/results", "127.0.0.1").await,
                "HTTP/1.1 200 OK"
            );
            assert_eq!(
                get(address, "/results", "gpu.example.com").await,
                "HTTP/1.1 200 OK"
            );
            assert!(
                get(address, "/results", "evil.example")
                    .await
                    .starts_with("HTTP/1.1 421")
            );
            let mut idle = Vec::new();
            for _ in 0..100 {
                idle.push(TcpStream::connect(address).await.unwrap());
            }
            // The server has not closed the idle connections yet, so the peer has reached its
            // limit.
            assert!(
                get(address, "/results", "127.0.0.1")
                    .await
                    .starts_with("HTTP/1.1 503"),
                "its share is used up"
            );
            for _ in 0..10 {
                assert_eq!(
                    get(address, "/health", "10.0.0.1:9400").await,
                    "HTTP/1.1 200 OK"
                );
            }
        };
        tokio::select! {
            () = attack => {}
            () = server.run() => unreachable!("a server does not end"),
        }
    });
}
