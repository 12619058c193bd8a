package learn

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/transform"
)

// Messages that are set aside are said, with the reason and the place of the last.
func TestDeadLettersAreSaid(t *testing.T) {
	var out bytes.Buffer
	w := learnt(t)
	for _, i := range []int{2, 3, 5} {
		w.topics[fixtures.Events][i].Value = []byte("garbage")
	}
	w.topics[fixtures.Events][7].Value = lacking(t)
	loop := w.transformLoop(t, fixtures.Events, 100)
	loop.Stage.(*transform.Transform).DeadLog = &reject.DeadLog{Log: fixtures.SaidLog(&out), Now: time.Now}
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"reason=format_unknown messages=3 last_partition=events/0 last_offset=5 last_error=",
		`reason=feature_missing messages=1 last_partition=events/0 last_offset=7 last_error="column \"`,
	} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, &out)
		}
	}
}

// Rows that are not whitened are said once a minute for each reason, with an example and the features to blame.
func TestUnusableRowsAreSaid(t *testing.T) {
	var out bytes.Buffer
	w := learnt(t)
	w.topics[fixtures.Events][2].Value = []byte(`[{"a":1,"b":2,"c":3},{"a":1,"b":null,"c":3},{"a":1,"b":2}]`)
	w.topics[fixtures.Events][3].Value = []byte(`{"a":null,"b":null,"c":null}`)
	w.topics[fixtures.Events][4].Value = []byte(`{"a":1e999,"b":1,"c":2}`)
	loop := w.transformLoop(t, fixtures.Events, 100)
	loop.Stage.(*transform.Transform).DeadLog = &reject.DeadLog{Log: fixtures.SaidLog(&out), Now: time.Now}
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`msg="rows are not whitened" reason=null rows=3 example="events/0@2, row 1" features="b, c, a"` + "\n",
		`msg="rows are not whitened" reason=inf rows=1 example="events/0@4, row 0" features=a` + "\n",
	} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, &out)
		}
	}
}
