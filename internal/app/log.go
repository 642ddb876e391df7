package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Logger writes one JSON object per line with the keys that users grep for (operations 10): level in
// upper case, time in UTC with milliseconds, logger, message, commit. How to log at which level is in
// the comment of the package.
func Logger(level string, outputs, errorOutputs []string, commit string) (logr.Logger, error) {
	at := zap.InfoLevel
	switch level {
	case "", "info":
	case "debug":
		at = zap.DebugLevel
	case "error":
		at = zap.ErrorLevel
	default:
		return logr.Logger{}, fmt.Errorf("log level %q is not known; want debug, info or error", level)
	}
	out, _, err := zap.Open(outputs...)
	if err != nil {
		return logr.Logger{}, fmt.Errorf("log: %w", err)
	}
	errorOut, _, err := zap.Open(errorOutputs...)
	if err != nil {
		return logr.Logger{}, fmt.Errorf("log: %w", err)
	}
	encoder := zapcore.NewJSONEncoder(encoding())
	core := lines{zapcore.NewCore(encoder, &pipe{out: out, notice: lostLinesNotice(encoder.Clone(), commit)}, at)}
	// Of equal messages the first hundred in a second are written, then every hundredth.
	sampled := zapcore.NewSamplerWithOptions(core, time.Second, 100, 100)
	logger := zap.New(sampled, zap.ErrorOutput(errorOut), zap.Fields(zap.String("commit", commit)), zap.WithCaller(at == zap.DebugLevel))
	return zapr.NewLogger(logger.Named(loggerName)), nil
}

const loggerName = "controller"

// lostLinesNotice returns how to say that lines were left out.
func lostLinesNotice(encoder zapcore.Encoder, commit string) func(lost int) []byte {
	return func(lost int) []byte {
		entry := zapcore.Entry{
			Level: zap.WarnLevel, Time: time.Now(), LoggerName: loggerName,
			Message: "the log could not be written for a while; lines are missing",
		}
		line, err := encoder.EncodeEntry(entry, []zapcore.Field{zap.Int("lines", lost), zap.String("commit", commit)})
		if err != nil {
			return nil
		}
		return line.Bytes()
	}
}

func encoding() zapcore.EncoderConfig {
	return zapcore.EncoderConfig{
		LevelKey: "level", TimeKey: "time", NameKey: "logger", CallerKey: "caller", MessageKey: "message",
		EncodeLevel: zapcore.CapitalLevelEncoder,
		EncodeTime: func(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
			enc.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
		},
		EncodeDuration: zapcore.StringDurationEncoder,
		EncodeCaller:   zapcore.ShortCallerEncoder,
	}
}

// lines gives entries the form that logr cannot: warnings, the causes of joined errors, and no line for
// each event that is sent.
type lines struct{ zapcore.Core }

// With adds fields to every later entry.
func (l lines) With(fields []zapcore.Field) zapcore.Core { return lines{l.Core.With(fields)} }

// Check decides whether an entry is written. The event recorder writes every event as a debug line; the events
// themselves are enough.
func (l lines) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !l.Enabled(entry.Level) || entry.Level < zapcore.InfoLevel && strings.HasSuffix(entry.LoggerName, ".events") {
		return checked
	}
	return checked.AddCore(entry, l)
}

// Write writes an entry. An error line without an error is a warning.
func (l lines) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	failed := slices.IndexFunc(fields, func(f zapcore.Field) bool { return f.Type == zapcore.ErrorType })
	switch {
	case failed >= 0 && (isShutdownError(fields[failed].Interface) || lostElection(entry.LoggerName, fields[failed].Interface)):
		entry.Level = zapcore.DebugLevel
		if !l.Enabled(entry.Level) {
			return nil
		}
	case failed >= 0:
		if causes := causesOf(fields[failed].Interface); len(causes) > 0 {
			fields = append(slices.Clone(fields), zap.Objects("errorCauses", causes))
		}
	case entry.Level == zapcore.ErrorLevel:
		entry.Level = zapcore.WarnLevel
		if !l.Enabled(entry.Level) {
			return nil
		}
	}
	return l.Core.Write(entry, fields)
}

// isShutdownError reports whether all that is wrong is that the process, or its turn as leader, ends.
func isShutdownError(value any) bool {
	err, ok := value.(error)
	if !ok {
		return false
	}
	if causes := causesOf(value); len(causes) > 0 {
		return !slices.ContainsFunc(causes, func(c cause) bool { return !isShutdownError(c.err) })
	}
	return errors.Is(err, context.Canceled)
}

// lostElection reports whether all that is wrong is that another replica was quicker to take the lease, as happens whenever
// two start together.
func lostElection(logger string, value any) bool {
	err, ok := value.(error)
	return ok && strings.HasSuffix(logger, ".leaderelection") && (apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err))
}

// cause is one of several errors that were joined.
type cause struct{ err error }

// MarshalLogObject writes the cause under the key that the whole error has.
func (c cause) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("error", c.err.Error())
	return nil
}

// causesOf lists what was joined into an error, however often it was wrapped since.
func causesOf(value any) []cause {
	err, ok := value.(error)
	for ok && err != nil {
		if joined, found := err.(interface{ Unwrap() []error }); found {
			var causes []cause
			for _, inner := range joined.Unwrap() {
				causes = append(causes, cause{inner})
			}
			return causes
		}
		err = errors.Unwrap(err)
	}
	return nil
}
