package format

import "fmt"

// budget is what a batch of a file may still take.
type budget struct {
	left, most int64
	rows       int
}

// take takes memory for values.
func (b *budget) take(bytes int64) error {
	if err := b.fits(bytes); err != nil {
		return err
	}
	b.left -= bytes
	return nil
}

// fits refuses what there is no room for.
func (b *budget) fits(bytes int64) error {
	if bytes < 0 || bytes > b.left {
		return fmt.Errorf("%d rows take %d bytes or more once they are read, at most %d are (half of memory.limit): raise memory.limit, or write rows of fewer bytes", b.rows, b.most-b.left+bytes, b.most)
	}
	return nil
}
