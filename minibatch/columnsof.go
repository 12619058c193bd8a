package minibatch

// ColumnsOf returns the columns whose features have the names: the names themselves, or of v[0], v[1], … the list column v.
func ColumnsOf(names []string) []string {
	if list, ok := listOf(names); ok {
		return []string{list}
	}
	return names
}
