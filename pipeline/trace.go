package pipeline

import (
	"context"

	"github.com/lca-stream/lca-stream/source"
)

// Trace is called when a piece of work begins, and returns the function to call when it has ended. The work is
// "process" for a batch, with the batch, and within it "commit" for a transaction, without a batch.
type Trace func(ctx context.Context, work string, b *source.Batch) (context.Context, func(error))

// traced is Trace, or nothing for loops without traces.
func (l *Loop) traced(ctx context.Context, work string, b *source.Batch) (context.Context, func(error)) {
	if l.Trace == nil {
		return ctx, func(error) {}
	}
	return l.Trace(ctx, work, b)
}
