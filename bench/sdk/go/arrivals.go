package main

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"
)

// arrivals records when the events of a watch were read from the connection, as src/arrivals.rs does.
type arrivals struct {
	lock  sync.Mutex
	times map[string]int64
}

func newArrivals() *arrivals {
	return &arrivals{times: map[string]int64{}}
}

// watching observes everything that is read.
func (a *arrivals) watching(inner http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := inner.RoundTrip(request)
		if err == nil {
			response.Body = &body{ReadCloser: response.Body, arrivals: a}
		}
		return response, err
	})
}

// take returns, once, the time at which the event of a write was read.
func (a *arrivals) take(at string) (int64, bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	arrived, found := a.times[at]
	delete(a.times, at)
	return arrived, found
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// body buffers the current line, which may arrive in pieces.
type body struct {
	io.ReadCloser
	arrivals *arrivals
	line     []byte
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for piece := range bytes.SplitAfterSeq(p[:n], []byte("\n")) {
		b.line = append(b.line, piece...)
		if bytes.HasSuffix(piece, []byte("\n")) {
			b.ended()
			b.line = b.line[:0]
		}
	}
	return n, err
}

// ended records the write that the completed line reports.
func (b *body) ended() {
	_, behind, found := bytes.Cut(b.line, []byte("bench.example.com/at\":\""))
	if !found {
		return
	}
	at, _, _ := bytes.Cut(behind, []byte("\""))
	b.arrivals.lock.Lock()
	defer b.arrivals.lock.Unlock()
	b.arrivals.times[string(at)] = time.Now().UnixMicro()
}
