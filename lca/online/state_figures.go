package online

// The counters and running figures of a state: see state.go.

// fields are in the order of the layout; lockouts and returns came with version 5, the last two with version 7.
func (c *counts) fields() []*uint64 {
	return []*uint64{&c.Rows, &c.Learnt, &c.Skipped, &c.Gated, &c.Copies, &c.Alarms, &c.Minibatches, &c.Since, &c.Lockouts, &c.Returns, &c.Recurrences, &c.Refusals}
}

func (c *counts) write(w *writer) {
	for _, f := range c.fields() {
		w.u64(*f)
	}
}

func (c *counts) read(r *reader) {
	fields := c.fields()
	switch {
	case r.version < 5:
		fields = fields[:8]
	case r.version < 7:
		fields = fields[:10]
	}
	for _, f := range fields {
		*f = r.u64()
	}
}

func (d *level) write(w *writer) {
	w.u64(d.seen)
	w.f64(d.mean)
	w.f64(d.variance)
}

func (d *level) read(r *reader) { *d = level{seen: r.u64(), mean: r.f64(), variance: r.f64()} }

func (d *drift) write(w *writer) {
	d.nll.write(w)
	d.far.write(w)
	d.quiet.write(w)
	w.f64(d.nll.floor)
}

func (d *drift) read(r *reader, dim int) {
	if d.nll.read(r); r.version > 3 {
		d.far.read(r)
		d.quiet.read(r, dim)
	}
	if r.version > 6 {
		d.nll.floor = r.f64()
	}
}

// readRenewal reads what layout 1 kept of an alarm that was being dealt with: then the drift before it is
// the one that counts, and the collected rows are those in quarantine.
func (d *drift) readRenewal(r *reader) {
	var was drift
	minibatches := r.u64()
	_ = r.f64()
	if was.nll.read(r); minibatches > 0 {
		*d = was
	}
}

func (r *running) fields() []*float64 {
	return []*float64{&r.Weight, &r.NLL, &r.GaussianNLL, &r.Effective}
}

func (r *running) write(w *writer) {
	for _, f := range r.fields() {
		w.f64(*f)
	}
}

func (r *running) read(from *reader) {
	for _, f := range r.fields() {
		*f = from.f64()
	}
}
