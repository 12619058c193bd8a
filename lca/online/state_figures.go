package online

// The counters and running figures of a state: see state.go.

// fields are in the order of the layout. The first edition had the first eight.
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
	if r.first {
		fields = fields[:8]
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
	if d.nll.read(r); !r.first {
		d.far.read(r)
		d.quiet.read(r, dim)
		d.nll.floor = r.f64()
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
