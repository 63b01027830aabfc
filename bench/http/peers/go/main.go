// SPDX-License-Identifier: Apache-2.0

// Go's net/http as a subject of the http suite: go_net_http fixed|lookup CSV BODY, or go_net_http version.
//
// fixed: every answer is BODY. lookup: the last part of the path is an id of CSV ("id,user,name" a line), found in a map.
// Header values are made once, lengths are given and a body goes out in one write: what a careful handler does.
package main

import (
	"bufio"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

type record struct {
	user uint64
	name string
}

var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
)

func load(path string) (map[uint64]record, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	records := make(map[uint64]record)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		parts := strings.Split(lines.Text(), ",")
		if len(parts) != 3 {
			return nil, fmt.Errorf("%s: %q is no record", path, lines.Text())
		}
		id, err := strconv.ParseUint(parts[0], 10, 64)
		if err != nil {
			return nil, err
		}
		user, err := strconv.ParseUint(parts[1], 10, 64)
		if err != nil {
			return nil, err
		}
		records[id] = record{user, parts[2]}
	}
	return records, lines.Err()
}

func answer(w http.ResponseWriter, body []byte) {
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Cache-Control"] = noStore
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	_, _ = w.Write(body)
}

func fixed(body []byte) http.HandlerFunc {
	length := []string{strconv.Itoa(len(body))}
	return func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header["Content-Type"] = jsonType
		header["Cache-Control"] = noStore
		header["Content-Length"] = length
		_, _ = w.Write(body)
	}
}

func lookup(records map[uint64]record) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		id, err := strconv.ParseUint(path[strings.LastIndexByte(path, '/')+1:], 10, 64)
		found, ok := records[id]
		if err != nil || !ok {
			http.NotFound(w, r)
			return
		}
		var space [128]byte
		body := append(space[:0], `{"id":`...)
		body = strconv.AppendUint(body, id, 10)
		body = append(body, `,"user":`...)
		body = strconv.AppendUint(body, found.user, 10)
		body = append(body, `,"name":`...)
		body = strconv.AppendQuote(body, found.name)
		body = append(body, '}')
		answer(w, body)
	}
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		fmt.Printf("net/http of %s, GOMAXPROCS %d\n", runtime.Version(), runtime.GOMAXPROCS(0))
		return
	}
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: go_net_http fixed|lookup CSV BODY, or go_net_http version")
		os.Exit(2)
	}
	handler := fixed([]byte(os.Args[3]))
	if os.Args[1] == "lookup" {
		records, err := load(os.Args[2])
		if err != nil {
			log.Fatal(err)
		}
		handler = lookup(records)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		os.Exit(0)
	}()
	fmt.Printf("listening %d\n", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, handler))
}
