package disruption

// Asked reports once whether something asked for a turn of the queue of commands.
func (d *Disruption) Asked() bool {
	select {
	case <-d.queue.wake:
		return true
	default:
		return false
	}
}
