package resources

import (
	"math"
	"math/big"

	"k8s.io/apimachinery/pkg/api/resource"
)

// rounding says where a fraction of a unit goes.
type rounding bool

const (
	up   rounding = true
	down rounding = false
)

// units returns a quantity as a whole number of the lane's unit, saturating. The library's own
// conversions wrap or return zero when they overflow and round negative numbers unevenly, so they
// are used only where the way back gives the same quantity, and only on numbers of ordinary size: an
// exponent such as that of 1e99999999, which is legal, keeps them busy for hours.
func units(quantity resource.Quantity, lane int, round rounding) int64 {
	if quantity.IsZero() {
		return 0
	}
	if n, whole := quantity.AsInt64(); whole {
		if lane != CPU {
			return n
		}
		if n > -math.MaxInt64/1000 && n < math.MaxInt64/1000 {
			return n * 1000
		}
	}
	scale := scaleOf(lane)
	if ordinary(&quantity) {
		n := quantity.ScaledValue(scale)
		if back := resource.NewScaledQuantity(n, scale); back.Cmp(quantity) == 0 {
			return n
		}
	}
	return exactUnits(quantity, int64(scale), round)
}

// Whole returns a quantity of countable things as a number, saturating; a fraction rounds down.
func Whole(quantity resource.Quantity) int64 { return units(quantity, Pods, down) }

// ordinary reports whether a quantity is of a size that arithmetic does not take long with.
func ordinary(quantity *resource.Quantity) bool {
	const least, most = 1e-18, 1e24
	size := math.Abs(quantity.AsApproximateFloat64())
	return size >= least && size <= most
}

// scaleOf is the power of ten that one unit of the lane stands for.
func scaleOf(lane int) resource.Scale {
	if lane == CPU {
		return resource.Milli
	}
	return 0
}

// exactUnits does the same with unbounded integers, for fractions and for numbers out of range.
func exactUnits(quantity resource.Quantity, scale int64, round rounding) int64 {
	decimal := quantity.AsDec() // quantity is our copy; the caller's is not converted
	digits := new(big.Int).Set(decimal.UnscaledBig())
	negative := digits.Sign() < 0
	exponent := -int64(decimal.Scale()) - scale // value in units = digits * 10^exponent
	const int64Digits = 19
	switch {
	case digits.Sign() == 0:
		return 0
	case exponent > int64Digits:
		return limit(negative)
	case exponent >= 0:
		digits.Mul(digits, power(exponent))
	case -exponent > int64(digits.BitLen()): // 10^n > 2^n: less than one unit
		return fraction(negative, round)
	default:
		remainder := new(big.Int)
		digits.DivMod(digits, power(-exponent), remainder) // rounds down
		if round == up && remainder.Sign() != 0 {
			digits.Add(digits, big.NewInt(1))
		}
	}
	if !digits.IsInt64() {
		return limit(negative)
	}
	return digits.Int64()
}

// fraction rounds a number between minus one and one that is not zero.
func fraction(negative bool, round rounding) int64 {
	switch {
	case negative && round == down:
		return -1
	case !negative && round == up:
		return 1
	default:
		return 0
	}
}

func power(n int64) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil)
}
