package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Exit code 3 says what to do about it, whichever way the other process has taken over.
func TestFencedSaysWhatToDo(t *testing.T) {
	for _, cause := range []error{sink.ErrFenced, source.ErrInstanceFenced} {
		var out bytes.Buffer
		(&program{stderr: &out}).complain(withCode(fmt.Errorf("EndTxn(abort): %w", cause)))
		if !strings.Contains(out.String(), "Another process took over this work: stop one, or give another snapshot.model_id to one.") {
			t.Errorf("%v: %s", cause, &out)
		}
	}
}
