package pipeline

import (
	"context"

	"github.com/lca-stream/lca-stream/source"
)

// Trace is told when a piece of work begins, and returns what to call when it has ended. The work is
// "process" for a batch, with the batch, and "commit" within it for a transaction, without.
type Trace func(ctx context.Context, work string, b *source.Batch) (context.Context, func(error))

// traced is for loops without traces, too.
func (l *Loop) traced(ctx context.Context, work string, b *source.Batch) (context.Context, func(error)) {
	if l.Trace == nil {
		return ctx, func(error) {}
	}
	return l.Trace(ctx, work, b)
}
