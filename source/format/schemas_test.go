package format

import (
	"context"
	"fmt"
)

// schemasByID is a registry.
type schemasByID map[int]*Schema // nil: one that is beyond what can be used

func (r schemasByID) Schema(_ context.Context, id int) (*Schema, error) {
	switch s, known := r[id]; {
	case s != nil:
		return s, nil
	case known:
		return nil, ErrUnusableSchema
	}
	return nil, fmt.Errorf("id %d: %w", id, ErrNoSchema)
}
