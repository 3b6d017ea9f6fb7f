// Elastic's side of a conversation: `elastic send` delivers lines of JSON from its standard input with go-lumber's client, and ends with status 0 once
// all are acknowledged; `elastic receive` prints what it is sent, a line of JSON an event, and acknowledges it.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	client "github.com/elastic/go-lumber/client/v2"
	server "github.com/elastic/go-lumber/server/v2"
)

var (
	address = flag.String("address", "", "host:port")
	window  = flag.Int("window", 100, "events in a window")
	level   = flag.Int("level", 3, "compression, 0 to 9")
	flight  = flag.Int("async", 0, "windows on their way at once with the asynchronous client; 0: the synchronous one")
	every   = flag.Int("reconnect", 0, "windows of a connection, 0: all")
	cert    = flag.String("cert", "", "certificate")
	key     = flag.String("key", "", "its key")
	ca      = flag.String("ca", "", "authority; without it there is no TLS")
)

func main() {
	flag.CommandLine.Parse(os.Args[2:])
	run := map[string]func() error{"send": send, "receive": receive}[os.Args[1]]
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func security() (*tls.Config, error) {
	pem, err := os.ReadFile(*ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, ServerName: "localhost"}
	if *cert != "" {
		pair, err := tls.LoadX509KeyPair(*cert, *key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func dial(network, address string) (net.Conn, error) {
	if *ca == "" {
		return net.Dial(network, address)
	}
	config, err := security()
	if err != nil {
		return nil, err
	}
	return tls.Dial(network, address, config)
}

func send() error {
	events, err := read()
	if err != nil {
		return err
	}
	size := len(events)
	if *every > 0 {
		size = *every * *window
	}
	for len(events) > 0 {
		n := min(size, len(events))
		if err := deliver(events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

func read() ([]interface{}, error) {
	var events []interface{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		events = append(events, json.RawMessage(append([]byte(nil), lines.Bytes()...)))
	}
	return events, lines.Err()
}

// deliver sends events over one connection, and returns once they are acknowledged.
func deliver(events []interface{}) error {
	options := []client.Option{client.CompressionLevel(*level), client.Timeout(30 * time.Second)}
	if *flight == 0 {
		sync, err := client.SyncDialWith(dial, *address, options...)
		if err != nil {
			return err
		}
		defer sync.Close()
		for _, part := range parts(events) {
			n, err := sync.Send(part)
			if err != nil || n != len(part) {
				return fmt.Errorf("acknowledged %d of %d: %v", n, len(part), err)
			}
		}
		return nil
	}
	async, err := client.AsyncDialWith(dial, *address, *flight, options...)
	if err != nil {
		return err
	}
	defer async.Close()
	answers := make(chan error, len(events))
	sent := parts(events)
	for _, part := range sent {
		wanted := uint32(len(part))
		answer := func(seq uint32, err error) {
			if err == nil && seq != wanted {
				err = fmt.Errorf("acknowledged %d of %d", seq, wanted)
			}
			answers <- err
		}
		if err := async.Send(answer, part); err != nil {
			return err
		}
	}
	for range sent {
		if err := <-answers; err != nil {
			return err
		}
	}
	return nil
}

func parts(events []interface{}) [][]interface{} {
	var all [][]interface{}
	for len(events) > 0 {
		n := min(*window, len(events))
		all, events = append(all, events[:n]), events[n:]
	}
	return all
}

func receive() error {
	options := []server.Option{server.Keepalive(time.Second), server.Timeout(30 * time.Second), server.JSONDecoder(decode)}
	if *ca != "" {
		config, err := security()
		if err != nil {
			return err
		}
		options = append(options, server.TLS(config))
	}
	listener, err := server.ListenAndServe(*address, options...)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for batch := range listener.ReceiveChan() {
		for _, event := range batch.Events {
			text, err := json.Marshal(event)
			if err != nil {
				return err
			}
			out.Write(append(text, '\n'))
		}
		if err := out.Flush(); err != nil {
			return err
		}
		batch.ACK()
	}
	return nil
}

// decode keeps instants exact: in ns they do not fit a float.
func decode(text []byte, into interface{}) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}
