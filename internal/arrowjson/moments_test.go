package arrowjson_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/arrowjson"
)

// A time that its text cannot show is null, and never another time.
func TestMomentsOfAnyNumber(t *testing.T) {
	for _, c := range []struct {
		dt    arrow.FixedWidthDataType
		value int64
		want  string
	}{
		{arrow.FixedWidthTypes.Timestamp_s, math.MaxInt64, "null"},
		{arrow.FixedWidthTypes.Timestamp_s, math.MinInt64, "null"},
		{arrow.FixedWidthTypes.Timestamp_s, 253402300799, `"9999-12-31T23:59:59Z"`},
		{arrow.FixedWidthTypes.Timestamp_ms, 253402300799000, `"9999-12-31T23:59:59Z"`},
		{arrow.FixedWidthTypes.Timestamp_us, 253402300799000000, `"9999-12-31T23:59:59Z"`},
		{arrow.FixedWidthTypes.Timestamp_ns, math.MaxInt64, `"2262-04-11T23:47:16.854775807Z"`},
		{arrow.FixedWidthTypes.Timestamp_ns, math.MinInt64, `"1677-09-21T00:12:43.145224192Z"`},
		{&arrow.TimestampType{Unit: arrow.Second, TimeZone: "Europe/Berlin"}, -62135596800, `"0001-01-01T00:53:00+00:53"`}, // the offset was 53 min 28 s
		{&arrow.TimestampType{Unit: arrow.Second, TimeZone: "Africa/Monrovia"}, 0, `"1969-12-31T23:16:00-00:44"`},          // 44 min 30 s until 1972
		{arrow.FixedWidthTypes.Time64us, math.MaxInt64, "null"},
		{arrow.FixedWidthTypes.Time64us, -1, "null"},
		{arrow.FixedWidthTypes.Time64us, 86_400_000_000 - 1, `"23:59:59.999999"`},
		{arrow.FixedWidthTypes.Time64ns, 86_400_000_000_000, "null"},
		{arrow.FixedWidthTypes.Time32s, math.MaxInt32, "null"},
		{arrow.FixedWidthTypes.Time32ms, 1, `"00:00:00.001"`},
	} {
		var rows arrowjson.Rows
		if err := rows.Reset(number(c.dt, c.value)); err != nil {
			t.Fatal(err)
		}
		if got := string(rows.Append(nil, 0)); got != fmt.Sprintf(`"a":%s`, c.want) {
			t.Errorf("%v %d: %s, want %s", c.dt, c.value, got, c.want)
		}
		if lost := rows.Lost(); (lost == 1) != (c.want == "null") {
			t.Errorf("%v %d: %d are lost", c.dt, c.value, lost)
		}
	}
}

// number is a row with a time by its number.
func number(dt arrow.FixedWidthDataType, v int64) arrow.Record {
	bytes := arrow.GetBytes([]int64{v})[:dt.Bytes()]
	data := array.NewData(dt, 1, []*memory.Buffer{nil, memory.NewBufferBytes(bytes)}, nil, 0, 0)
	return array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "a", Type: dt}}, nil), []arrow.Array{array.MakeFromData(data)}, 1)
}
