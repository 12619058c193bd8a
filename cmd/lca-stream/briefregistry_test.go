package main

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
	"github.com/lca-stream/lca-stream/source/registry"
)

// busy is a registry that has no time.
type busy struct{}

func (busy) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("busy"))}, nil
}

// inspect, init and doctor end when the registry is away, and say so; the stream waits for it.
func TestCommandsThatLookDoNotWaitForTheRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := registry.Open(registry.Config{URL: "http://registry.test", Transport: busy{}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		began := time.Now()
		_, err = briefRegistry{c}.Schema(t.Context(), 7)
		var said *kafkaconn.Error
		if !errors.As(err, &said) || !strings.Contains(said.Remedy, "source.registry.url") || time.Since(began) != registryFor {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
