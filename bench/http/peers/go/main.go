// SPDX-License-Identifier: Apache-2.0

// Go's net/http as a subject of the http suite: go_net_http computed|lookup CSV, or go_net_http version.
//
// The last part of the path is an id. computed: user and name follow from it by arithmetic (../../computed.hpp).
// lookup: they are those of CSV ("id,user,name" a line), found in a map.
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

func answer(w http.ResponseWriter, id, user uint64, name string) {
	var space [128]byte
	body := append(space[:0], `{"id":`...)
	body = strconv.AppendUint(body, id, 10)
	body = append(body, `,"user":`...)
	body = strconv.AppendUint(body, user, 10)
	body = append(body, `,"name":`...)
	body = strconv.AppendQuote(body, name)
	body = append(body, '}')
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Cache-Control"] = noStore
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	_, _ = w.Write(body)
}

func idIn(r *http.Request) (uint64, error) {
	path := r.URL.Path
	return strconv.ParseUint(path[strings.LastIndexByte(path, '/')+1:], 10, 64)
}

func compute(w http.ResponseWriter, r *http.Request) {
	id, err := idIn(r)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	mixed := id * 0x9E3779B97F4A7C15
	var letters [8]byte
	count := 3 + mixed>>61%6
	for i, rest := uint64(0), mixed>>20; i < count; i, rest = i+1, rest/26 {
		letters[i] = 'a' + byte(rest%26)
	}
	answer(w, id, mixed>>32, string(letters[:count]))
}

func lookup(records map[uint64]record) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := idIn(r)
		found, ok := records[id]
		if err != nil || !ok {
			http.NotFound(w, r)
			return
		}
		answer(w, id, found.user, found.name)
	}
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		fmt.Printf("net/http of %s, GOMAXPROCS %d\n", runtime.Version(), runtime.GOMAXPROCS(0))
		return
	}
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go_net_http computed|lookup CSV, or go_net_http version")
		os.Exit(2)
	}
	handler := http.HandlerFunc(compute)
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
