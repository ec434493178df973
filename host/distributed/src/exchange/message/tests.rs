use super::*;

const SHAPE: BlockShape = BlockShape { rows: 4, width: 2 };

fn rows() -> RowUpdates {
    [(0, vec![1.0, -2.0]), (3, vec![0.5, 0.0])].into()
}

#[test]
fn questions_survive_their_bytes_and_others_are_refused() {
    let exchange = PeerRequest::Exchange {
        block: 2,
        version: 3,
        number: 4,
        settlements: SettlementCounts {
            begun: 6,
            applied: 5,
        },
        rows: rows(),
    };
    let observed = ObservedBatches {
        batches: 2,
        edges: 3,
        loss: 0.5,
    };
    let loss = PeerRequest::Loss {
        block: 4,
        number: 5,
        observed,
    };
    let questions = [
        loss,
        exchange,
        PeerRequest::WhichHeld(vec![1, 2]),
        PeerRequest::State { block: 3, piece: 1 },
    ];
    for question in questions {
        let asked = SignedRequest {
            from: Token(7),
            question,
        };
        let bytes = asked.encode();
        let decoded = SignedRequest::decode(&bytes, |_| Some(SHAPE));
        assert_eq!(decoded, Some(asked));
        assert_eq!(SignedRequest::decode(&bytes[1..], |_| Some(SHAPE)), None);
    }
    let too_many = SignedRequest {
        from: Token(1),
        question: PeerRequest::WhichHeld(vec![0; MOST_BLOCKS + 1]),
    };
    assert_eq!(
        SignedRequest::decode(&too_many.encode(), |_| Some(SHAPE)),
        None
    );
    assert_eq!(SignedRequest::decode(&[], |_| Some(SHAPE)), None);
}

#[test]
fn answers_survive_their_bytes_and_what_does_not_fit_is_refused() {
    let sums = PeerReply::Sums {
        version: 8,
        counted: [(Token(1), 4)].into(),
        rows: super::tests::rows(),
    };
    let rows = ShardKind::Rows(SHAPE);
    let smaller = ShardKind::Rows(BlockShape { rows: 3, width: 2 });
    assert_eq!(PeerReply::decode(&sums.encode(), smaller), None);
    let loss = PeerReply::Loss {
        version: 3,
        counted: CountedMessages::new(),
        state: LossState {
            parameters: vec![1.0],
            ..LossState::default()
        },
        is_whole: true,
    };
    assert_eq!(PeerReply::decode(&loss.encode(), rows), None);
    assert_eq!(PeerReply::decode(&loss.encode(), ShardKind::Loss(2)), None);
    assert_eq!(
        PeerReply::decode(&loss.encode(), ShardKind::Loss(1)),
        Some(loss)
    );
    for reply in [
        sums,
        PeerReply::NotMine,
        PeerReply::NotReady,
        PeerReply::NotHeld(vec![(4, 5)]),
        PeerReply::State(Piece {
            version: 7,
            pieces: 2,
            bytes: vec![1, 2, 3],
        }),
        PeerReply::Leaving,
    ] {
        assert_eq!(PeerReply::decode(&reply.encode(), rows), Some(reply));
    }
    for value in [f32::NAN, f32::INFINITY, -2e30] {
        let excessive = PeerReply::Sums {
            version: 1,
            counted: CountedMessages::new(),
            rows: [(0, vec![value, 0.0])].into(),
        };
        assert_eq!(PeerReply::decode(&excessive.encode(), rows), None);
    }
}
