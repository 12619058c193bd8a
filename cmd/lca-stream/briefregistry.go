package main

import (
	"context"
	"fmt"

	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
	"github.com/lca-stream/lca-stream/source/registry"
)

// briefRegistry is the schema registry of a command that only looks: one that does not answer is an error, and is not waited for.
type briefRegistry struct{ *registry.Client }

// registryFor is how long it may take to answer. It is asked for an id that it does not know for 5 s.
const registryFor = 2 * lookFor

// Schema is that of registry.Client.
func (r briefRegistry) Schema(ctx context.Context, id int) (*format.Schema, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, registryFor, &kafkaconn.Error{
		Err: fmt.Errorf("the schema registry %s does not answer", r.URL()), Remedy: "start it, or correct source.registry.url",
	})
	defer cancel()
	return r.Client.Schema(ctx, id)
}
