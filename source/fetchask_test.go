package source

import "testing"

// Fetches of a topic whose batches are alike come to bring them whole.
func TestFetchesAskForWholeBatches(t *testing.T) {
	const most = 2000
	for _, c := range []struct {
		name  string
		batch []int // sizes, in turn
		want  int   // bytes read for each byte of a batch, in per cent, at most
	}{
		{"small", []int{16}, 101},
		{"a third", []int{640}, 105},
		{"over a half", []int{1100}, 100},
		{"nearly all", []int{1900}, 106},
		{"more than is asked for", []int{2500}, 100},
		{"a little different", []int{1300, 1310, 1290, 1305}, 102},
		{"not alike", []int{100, 1500, 700}, 155},
	} {
		ask, next, read, taken := most, 0, 0, 0
		for range 1000 {
			size, in := 0, 0
			for i := next; ; i++ {
				b := c.batch[i%len(c.batch)]
				if size > 0 && size+b > ask { // a broker sends the first batch whole
					break
				}
				size, in = size+b, in+1
			}
			next += in
			cut := max(0, ask-size)
			read, taken = read+size+cut, taken+size
			if ask = nextRequestBytes(ask, most, size, cut); ask > most || ask < most/2 {
				t.Fatalf("%s: asks for %d bytes of %d", c.name, ask, most)
			}
		}
		if got := 100 * read / taken; got > c.want {
			t.Errorf("%s: reads %d %% of what it takes, want at most %d", c.name, got, c.want)
		}
	}
}
