// follower HOST:PORT TOPIC: print every record of all partitions, from the first one on.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	ottla "ottla.example/grpc/ottla/v1"
)

func main() {
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	stream, err := ottla.NewLogClient(conn).Subscribe(context.Background(), &ottla.SubscribeRequest{
		Partitions: []*ottla.SubscribePartition{{Topic: os.Args[2], Partition: -1, Start: ottla.Start_START_EARLIEST}}})
	if err != nil {
		log.Fatal(err)
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			log.Fatal(err)
		}
		for _, record := range message.Records {
			fmt.Println(message.Partition, record.Offset, string(record.Value))
		}
	}
}
