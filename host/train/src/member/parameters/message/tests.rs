use super::*;

const SHAPE: Shape = Shape { rows: 4, width: 2 };

fn rows() -> BlockRows {
    [(0, vec![1.0, -2.0]), (3, vec![0.5, 0.0])].into()
}

#[test]
fn questions_survive_their_bytes_and_others_are_refused() {
    let exchange = Question::Exchange {
        block: 2,
        version: 3,
        number: 4,
        settlements: Settlements {
            begun: 6,
            applied: 5,
        },
        rows: rows(),
    };
    let give = Question::Give {
        block: 1,
        at: 6,
        without: vec![Token(9)],
        piece: Piece {
            version: 7,
            piece: 0,
            pieces: 2,
            bytes: vec![1, 2, 3],
        },
    };
    let observed = Observed {
        batches: 2,
        edges: 3,
        loss: 0.5,
    };
    let loss = Question::Loss {
        block: 4,
        number: 5,
        observed,
    };
    let questions = [
        loss,
        exchange,
        Question::Have {
            at: 6,
            blocks: vec![1, 2],
        },
        Question::Copy(3),
        give,
    ];
    for question in questions {
        let asked = Asked {
            from: Token(7),
            question,
        };
        let bytes = asked.encode();
        let decoded = Asked::decode(&bytes, |_| Some(SHAPE));
        assert_eq!(decoded, Some(asked));
        assert_eq!(Asked::decode(&bytes[1..], |_| Some(SHAPE)), None);
    }
    let too_many = Asked {
        from: Token(1),
        question: Question::Have {
            at: 1,
            blocks: vec![0; MOST_BLOCKS + 1],
        },
    };
    assert_eq!(Asked::decode(&too_many.encode(), |_| Some(SHAPE)), None);
    assert_eq!(Asked::decode(&[], |_| Some(SHAPE)), None);
}

#[test]
fn answers_survive_their_bytes_and_what_does_not_fit_is_refused() {
    let sums = Reply::Sums {
        version: 8,
        counted: [(Token(1), 4)].into(),
        rows: super::tests::rows(),
    };
    let rows = ShardKind::Rows(SHAPE);
    let smaller = ShardKind::Rows(Shape { rows: 3, width: 2 });
    assert_eq!(Reply::decode(&sums.encode(), smaller), None);
    let loss = Reply::Loss {
        version: 3,
        counted: Counted::new(),
        state: LossState {
            parameters: vec![1.0],
            ..LossState::default()
        },
        is_whole: true,
    };
    assert_eq!(Reply::decode(&loss.encode(), rows), None);
    assert_eq!(Reply::decode(&loss.encode(), ShardKind::Loss(2)), None);
    assert_eq!(
        Reply::decode(&loss.encode(), ShardKind::Loss(1)),
        Some(loss)
    );
    for reply in [
        sums,
        Reply::NotMine,
        Reply::NotReady,
        Reply::Lacks(vec![(4, 5)]),
        Reply::More,
        Reply::Taken,
        Reply::Leaving,
    ] {
        assert_eq!(Reply::decode(&reply.encode(), rows), Some(reply));
    }
    let infinite = Reply::Sums {
        version: 1,
        counted: Counted::new(),
        rows: [(0, vec![f32::NAN, 0.0])].into(),
    };
    assert_eq!(Reply::decode(&infinite.encode(), rows), None);
}
