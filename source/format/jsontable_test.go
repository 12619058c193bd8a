package format

import (
	"fmt"
	"strings"
	"testing"
)

// A message is decoded to the same record whatever was decoded before it: with other columns, in another order,
// of other types, with more or fewer rows, or that failed.
func TestTablesServeAgain(t *testing.T) {
	var wide strings.Builder
	for i := range 2 * mostTableColumns {
		fmt.Fprintf(&wide, `%c"w%d":%d`, "{,"[min(i, 1)], i, i)
	}
	values := []string{
		`{"a":1.5,"b":2}`, `{"b":2,"a":1.5}`, `{"a":"text","b":[1,2],"c":null}`, `{"a":1.5,"b":2}`, `{"a":1.5,"b":2,"a":3}`,
		`[{"a":1},{"b":true},{"a":2,"b":false}]`, `{"x\u0041":1,"xA2":"é"}`, `{"xA":12345678901234567890}`, `{"xA":-1234567890123456789}`,
		wide.String() + "}", `{"b":[1,2,3],"a":{"nested":1}}`, `{"b":[1,2,3]`, `{}`, `[]`, `{"a":1.5,"b":2}`,
		"[" + strings.Repeat(`{"a":1},`, 2*mostTableRows) + `{"a":2}]`, `{"b":null}`,
	}
	used := newDecoder(t, Config{})
	for range 2 {
		for _, v := range values {
			want, wantErr := newDecoder(t, Config{}).Decode(t.Context(), []byte(v), "")
			got, err := used.Decode(t.Context(), []byte(v), "")
			if fmt.Sprint(wantErr) != fmt.Sprint(err) {
				t.Fatalf("%.60s: %v, want %v", v, err, wantErr)
			}
			if err != nil {
				continue
			}
			if !got.Schema().Equal(want.Schema()) || fmt.Sprint(describe(got)) != fmt.Sprint(describe(want)) {
				t.Errorf("%.60s: %.200s, want %.200s", v, describe(got), describe(want))
			}
		}
	}
}
