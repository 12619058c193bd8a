package main

import (
	"context"
	"errors"

	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// registry asks the schema registry for the newest schema of the source topic. That the messages can be read by their
// schemas is seen when they are read.
func (d *doctor) registry(ctx context.Context) {
	r := d.system.registry
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	subject := d.system.config.Source.Topic + "-value"
	s, err := r.Latest(ctx, subject)
	var said *kafkaconn.Error
	switch {
	case err == nil:
		d.ok("registry", "%s answers; the newest schema of %s is %d, %s", r.URL(), subject, s.ID, s.Type)
	case errors.Is(err, format.ErrNoSchema):
		d.ok("registry", "%s answers; it has no subject %s, so the values name schemas of other subjects, or none", r.URL(), subject)
	case errors.As(err, &said):
		d.fault("registry", said.Remedy, "%v", said.Err)
	default:
		d.fault("registry", "start the registry, or correct source.registry.url", "%s does not answer: %v", r.URL(), err)
	}
}
