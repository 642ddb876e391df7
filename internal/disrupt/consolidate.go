package disrupt

func (d *Decision) consolidate(_ *View, _ *ground) {}
