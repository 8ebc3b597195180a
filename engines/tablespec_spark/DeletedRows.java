package io.tablespec.spark;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.util.ArrayList;
import java.util.List;

import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.util.collection.BitSet;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Rows that are gone, as the bits of their numbers.
 *
 * Executors know Spark's classes and not these, so the filter is made of Spark's expressions alone: a call of Spark's own BitSet. Few bits
 * travel with the plan. Many are broadcast, so that not every task unpacks them, though each row then looks the broadcast up; a plan that
 * is not used any more takes it with it.
 */
public final class DeletedRows {
    private static final DataType BITS = new ObjectType(BitSet.class);

    private final BitSet bits;

    /** @param numbers integers of four bytes, the lowest first */
    public DeletedRows(byte[] numbers, int end) {
        bits = new BitSet(end);
        IntBuffer in = ByteBuffer.wrap(numbers).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer();
        while (in.hasRemaining()) {
            bits.set(in.get());
        }
    }

    /** The rows that are left; the bits are part of the plan, or broadcast. */
    public Dataset takenFrom(Dataset rows, String hasNumber, String number, boolean inPlan) {
        List arguments = new ArrayList();
        arguments.add(ExpressionUtils.expression(functions.expr(number)));
        Expression sent = inPlan ? new Literal(bits, BITS) : broadcast(new JavaSparkContext(rows.sparkSession().sparkContext()));
        Column isDeleted = ExpressionUtils.column(call(sent, "get", DataTypes.BooleanType, arguments));
        return rows.filter(functions.not(functions.expr(hasNumber).and(isDeleted)));
    }

    private Expression broadcast(JavaSparkContext context) {
        return call(new Literal(context.broadcast(bits), new ObjectType(Broadcast.class)), "value", BITS, new ArrayList());
    }

    /** How many rows a condition takes away, all of which the files have; null for a condition that is not exactly one of these. */
    public static Long taken(Expression condition) {
        if (!(condition instanceof Or)) return null;
        Or either = (Or) condition;
        if (!(either.left() instanceof GreaterThanOrEqual) || !(either.right() instanceof Not)) return null;
        GreaterThanOrEqual beyond = (GreaterThanOrEqual) either.left();
        Expression called = ((Not) either.right()).child();
        if (!(beyond.left() instanceof Attribute) || !(beyond.right() instanceof Attribute) || !(called instanceof Invoke)) return null;
        Expression sent = ((Invoke) called).targetObject();
        if (sent instanceof Invoke) sent = ((Invoke) sent).targetObject();
        if (!(sent instanceof Literal)) return null;
        Object value = ((Literal) sent).value();
        if (value instanceof Broadcast) value = ((Broadcast) value).value();
        return value instanceof BitSet ? Long.valueOf(((BitSet) value).cardinality()) : null;
    }

    private static Expression call(Expression target, String method, DataType type, List arguments) {
        scala.collection.immutable.Seq none = CollectionConverters.asScala(new ArrayList()).toSeq();
        return new Invoke(target, method, type, CollectionConverters.asScala(arguments).toSeq(), none, false, false, true);
    }
}
