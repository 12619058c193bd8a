package jsontext

import (
	"fmt"
	"strings"
	"testing"
)

// What an object or array holds is found whatever stands around it, and whatever is in its strings.
func TestMembers(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:      "",
		" [ \n] ": "",
		`{"a":1,"b\"}":[1,{"c":"]"}],"c":{"d":[]},"e":"\\"}`: `"a"=1 "b\"}"=[1,{"c":"]"}] "c"={"d":[]} "e"="\\"`,
		"{ \"a\" :\tnull ,\r\n\"b\": -1.5e-3 }":              `"a"=null "b"=-1.5e-3`,
		`[1, "," ,{"a":"b"},NaN,-Infinity,true]`:             `=1 ="," ={"a":"b"} =NaN =-Infinity =true`,
	} {
		var got []string
		for m := range Members([]byte(text), strings.IndexAny(text, "{[")) {
			got = append(got, fmt.Sprintf("%s=%s", m.Key, text[m.From:m.To]))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
