package pipeline

import "slices"

// constantNamed is how many columns a line names.
const constantNamed = 20

// sayConstant logs which columns have not moved, at first and when others do. They have no part in the metric, and their first move is an anomaly.
func (l *Learn) sayConstant(columns []int) {
	named := func(k int) string { return l.features.Names[k] }
	if len(columns) == len(l.constant) {
		same := true
		for i, k := range columns {
			same = same && l.constant[i] == named(k)
		}
		if same {
			return
		}
	}
	before := l.constant
	l.constant = make([]string, 0, len(columns)) // a reader may have the one before
	for _, k := range columns {
		l.constant = append(l.constant, named(k))
	}
	moved := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return slices.Contains(l.constant, name) })
	l.Log.Info("columns that have not moved: their first move is an anomaly", "model_id", l.ModelID,
		"columns", len(l.constant), "names", l.constant[:min(constantNamed, len(l.constant))], "moved_since", moved[:min(constantNamed, len(moved))])
}
