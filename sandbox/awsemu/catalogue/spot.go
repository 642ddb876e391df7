package catalogue

import (
	"math"
	"time"
)

const (
	spotFloor = 0.1       // of the on-demand price: spot never costs less
	spotSwing = 0.2       // of the base price: spot never moves further from it
	spotTide  = 12        // hours from one turning point to the next
	spotUnit  = 1_000_000 // prices are whole millionths of a dollar
)

// Spot returns the price of a spot hour in USD, for zones as in Offered. It starts from the real price
// and changes at the full hour, by little: every twelve hours a hash picks how far the price is from its
// base, and between two such points it glides. Its mean is the base, and it stays between a tenth of the
// on-demand price and all of it. The same arguments always give the same price.
func (c *Catalogue) Spot(name string, zone int, at time.Time) (usdPerHour float64, ok bool) {
	o, found := c.Offer(name)
	if !found || !o.inZone(zone) || len(o.SpotUSD) == 0 || o.SpotUSD[zone%len(o.SpotUSD)] == 0 {
		return 0, false
	}
	price := o.SpotUSD[zone%len(o.SpotUSD)]
	floor, ceiling := spotFloor*o.OnDemand, o.OnDemand
	if ceiling == 0 { // in no price list: nothing bounds it from above
		ceiling = (1 + spotSwing) * price
	}
	base := min(max(price, floor), ceiling)
	swing := min(spotSwing*base, base-floor, ceiling-base)
	price = base + swing*priceWave(name, zone, at)
	return min(max(math.Round(price*spotUnit)/spotUnit, floor), ceiling), true
}

// priceWave is between -1 and 1, 0 on average, and constant within an hour.
func priceWave(name string, zone int, at time.Time) float64 {
	hour := floorDiv(at.Unix(), 3600)
	turn := floorDiv(hour, spotTide)
	along := float64(hour-turn*spotTide) / spotTide
	ease := along * along * (3 - 2*along)
	return waveHeight(name, zone, turn)*(1-ease) + waveHeight(name, zone, turn+1)*ease
}

// waveHeight is a turning point of the tide.
func waveHeight(name string, zone int, turn int64) float64 {
	const steps = 1 << 53
	return 2*float64(hashNumbers(name, uint64(zone), uint64(turn))>>11)/steps - 1
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// hashNumbers is FNV-1a over the name, then SplitMix64 over the numbers: cheap, and the same on all machines.
func hashNumbers(name string, numbers ...uint64) uint64 {
	sum := uint64(14695981039346656037)
	for i := range len(name) {
		sum = (sum ^ uint64(name[i])) * 1099511628211
	}
	for _, n := range numbers {
		sum += n + 0x9e3779b97f4a7c15
		sum = (sum ^ sum>>30) * 0xbf58476d1ce4e5b9
		sum = (sum ^ sum>>27) * 0x94d049bb133111eb
		sum ^= sum >> 31
	}
	return sum
}
