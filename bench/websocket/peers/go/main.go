// SPDX-License-Identifier: Apache-2.0

// gorilla/websocket as a subject of the websocket suite: gorilla_websocket, or gorilla_websocket version.
//
// /echo sends each message back, /publish to every connection of /subscribe. A goroutine a connection, as many at once
// as GOMAXPROCS says. Bytes of messages are read into a buffer that stays, and a frame that goes to many is prepared
// once; all that waits for a subscriber leaves in one write. No compression; Go sets TCP_NODELAY itself.
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// Messages that may wait for a subscriber: the suite has no more under way.
	queueMessages = 1024
	// What a message has beyond as many bytes is read and written past the library's buffers.
	bufferBytes = 4096
	// The largest, and room for a byte more: only a read that gives nothing tells the end of a message.
	messageBytes = 64<<10 + 1
)

var upgrader = websocket.Upgrader{ReadBufferSize: bufferBytes, WriteBufferSize: bufferBytes}

// reader takes messages off a connection into one buffer: ReadMessage would make one for each.
type reader struct {
	conn   *websocket.Conn
	buffer []byte
}

func newReader(conn *websocket.Conn) *reader {
	return &reader{conn, make([]byte, messageBytes)}
}

func (r *reader) next() (kind int, message []byte, err error) {
	kind, from, err := r.conn.NextReader()
	if err != nil {
		return kind, nil, err
	}
	size := 0
	for {
		if size == len(r.buffer) {
			r.buffer = append(r.buffer, make([]byte, len(r.buffer))...)
		}
		n, err := from.Read(r.buffer[size:])
		size += n
		if err == io.EOF {
			return kind, r.buffer[:size], nil
		}
		if err != nil {
			return kind, nil, err
		}
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	for from := newReader(conn); ; {
		kind, message, err := from.next()
		if err != nil || conn.WriteMessage(kind, message) != nil {
			return
		}
	}
}

// joined is a connection whose writes wait for a flush: each frame is a write of its own to the library.
type joined struct {
	net.Conn
	mutex   sync.Mutex // of pongs, which come from the goroutine that reads
	waiting *bufio.Writer
}

func (j *joined) Write(bytes []byte) (int, error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.waiting.Write(bytes)
}

func (j *joined) flush() error {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.waiting.Flush()
}

// taken gives the library a joined connection in place of that of the response.
type taken struct {
	http.ResponseWriter
	conn *joined
}

func (t *taken) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := t.ResponseWriter.(http.Hijacker).Hijack()
	if err != nil {
		return nil, nil, err
	}
	t.conn = &joined{Conn: conn, waiting: bufio.NewWriterSize(conn, bufferBytes)}
	return t.conn, buffers, nil
}

type queue chan *websocket.PreparedMessage

type hub struct {
	mutex       sync.Mutex
	subscribers map[queue]struct{}
}

func (h *hub) enter(who queue) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.subscribers[who] = struct{}{}
}

// leave ends the queue, unless that was done.
func (h *hub) leave(who queue) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if _, there := h.subscribers[who]; there {
		delete(h.subscribers, who)
		close(who)
	}
}

// send gives the message to all; whose queue is full leaves.
func (h *hub) send(message *websocket.PreparedMessage) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for who := range h.subscribers {
		select {
		case who <- message:
		default:
			delete(h.subscribers, who)
			close(who)
		}
	}
}

func (h *hub) publish(w http.ResponseWriter, r *http.Request) {
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	for from := newReader(conn); ; {
		kind, bytes, err := from.next()
		if err != nil {
			return
		}
		message, err := websocket.NewPreparedMessage(kind, bytes)
		if err != nil {
			return
		}
		h.send(message)
	}
}

// forward writes what comes by the queue, all that waits at once, until the queue or the connection ends.
func forward(conn *websocket.Conn, to *joined, from queue) {
	defer conn.Close()
	for message := range from {
		for there := true; there; {
			if conn.WritePreparedMessage(message) != nil {
				return
			}
			select {
			case message, there = <-from:
			default:
				there = false
			}
		}
		if to.flush() != nil {
			return
		}
	}
}

func (h *hub) subscribe(w http.ResponseWriter, r *http.Request) {
	through := &taken{ResponseWriter: w}
	conn, err := upgrader.Upgrade(through, r, nil)
	if err != nil {
		return
	}
	messages := make(queue, queueMessages)
	h.enter(messages) // before the client hears that it is one of them
	defer h.leave(messages)
	if through.conn.flush() != nil {
		conn.Close()
		return
	}
	conn.SetPingHandler(func(text string) error {
		if err := conn.WriteControl(websocket.PongMessage, []byte(text), time.Now().Add(time.Second)); err != nil {
			return err
		}
		return through.conn.flush()
	})
	go forward(conn, through.conn, messages)
	for {
		if _, _, err := conn.NextReader(); err != nil {
			_ = through.conn.flush() // the answer to its close
			return
		}
	}
}

func version() string {
	told := "gorilla/websocket"
	if info, there := debug.ReadBuildInfo(); there {
		for _, each := range info.Deps {
			told += " " + each.Version
		}
	}
	return fmt.Sprintf("%s of %s, GOMAXPROCS %d", told, runtime.Version(), runtime.GOMAXPROCS(0))
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		fmt.Println(version())
		return
	}
	if len(os.Args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: gorilla_websocket [version]")
		os.Exit(2)
	}
	all := &hub{subscribers: make(map[queue]struct{})}
	paths := http.NewServeMux()
	paths.HandleFunc("/echo", echo)
	paths.HandleFunc("/publish", all.publish)
	paths.HandleFunc("/subscribe", all.subscribe)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening %d\n", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, paths))
}
