# go: build, test, vet
home_may_be_written || export GOCACHE=$PWD/cache
export GOFLAGS=-mod=mod GOPROXY=off
cat >main.go <<'END'
package main
import "fmt"
func answer() int { c := make(chan int); go func() { c <- 42 }(); return <-c }
func main() { fmt.Println(answer()) }
END
cat >main_test.go <<'END'
package main
import "testing"
func TestAnswer(t *testing.T) { if answer() != 42 { t.Fail() } }
END
go mod init kept 2>/dev/null
go build -o kept .
is "$(./kept)" 42
has "$(go test -v ./...)" '--- PASS: TestAnswer'
go vet ./...
