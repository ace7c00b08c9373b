// Connections into and out of the node: Unix sockets in the file system work across network
// namespaces.
package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// relay forwards every accepted connection to another address.
func relay(network, address, toNetwork, toAddress string) error {
	listener, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	go accept(listener, func(client net.Conn) {
		server, err := net.Dial(toNetwork, toAddress)
		if err != nil {
			return
		}
		splice(client, client, server)
	})
	return nil
}

// serveConnect serves an HTTP CONNECT proxy, through which the API server reaches the kubelet, pods
// and Services.
func serveConnect(socket string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go accept(listener, func(client net.Conn) {
		reader := bufio.NewReader(client)
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		server, err := net.DialTimeout("tcp", request.Host, 10*time.Second)
		if err != nil {
			io.WriteString(client, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
			return
		}
		io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		splice(client, reader, server)
	})
	return nil
}

func accept(listener net.Listener, handle func(net.Conn)) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close()
			handle(client)
		}()
	}
}

type closeWriter interface{ CloseWrite() error }

// splice copies in both directions until both sides have ended.
func splice(client net.Conn, fromClient io.Reader, server net.Conn) {
	defer server.Close()
	done := make(chan struct{})
	go func() {
		io.Copy(server, fromClient)
		server.(closeWriter).CloseWrite()
		close(done)
	}()
	io.Copy(client, server)
	client.(closeWriter).CloseWrite()
	<-done
}
