package io.tablespec.spark;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.TimestampType;
import scala.Function1;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Keeps from Spark's Parquet reader the comparisons by which it passes over rows that match.
 *
 * To its dictionaries the two zeros are different numbers, and days that the calendar left out in 1582 become others on their way there.
 * It does not look at a column inside of a call, so that such comparisons are made on rows alone.
 */
public final class ExactFilters extends Rule {
    // The days around those from 1582-10-05 to 1582-10-14, since 1970, with one more on each side for the zones of the world.
    private static final long FIRST_DAY = -141438;
    private static final long LAST_DAY = -141427;
    private static final long MICROS = 86_400_000_000L;

    public TreeNode apply(TreeNode plan) {
        return ((LogicalPlan) plan).transformDownWithSubqueries(new Filters());
    }

    /** What the rule does to each node of a plan. */
    public static final class Filters extends AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof Filter && isAboveOurs((Filter) node);
        }

        public Object applyOrElse(Object node, Function1 otherwise) {
            if (!isDefinedAt(node)) return otherwise.apply(node);
            Filter filter = (Filter) node;
            Expression exact = (Expression) filter.condition().transformUp(new Comparisons());
            return exact.fastEquals(filter.condition()) ? filter : new Filter(exact, filter.child());
        }
    }

    /** What it does to each part of a condition. */
    public static final class Comparisons extends AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof BinaryComparison || node instanceof In || node instanceof InSet;
        }

        public Object applyOrElse(Object node, Function1 otherwise) {
            if (!isDefinedAt(node)) return otherwise.apply(node);
            Expression expression = (Expression) node;
            return isMistaken(expression) ? onRows(expression) : expression;
        }
    }

    private static boolean isAboveOurs(Filter filter) {
        LogicalPlan below = filter.child();
        while (below instanceof Project || below instanceof Filter) {
            below = (LogicalPlan) below.children().head();
        }
        return CountedRows.isOurs(below);
    }

    private static boolean isMistaken(Expression comparison) {
        if (comparison instanceof InSet) {
            InSet set = (InSet) comparison;
            Iterator values = CollectionConverters.asJava(set.hset()).iterator();
            while (values.hasNext()) {
                if (isMistaken(set.child().dataType(), values.next(), true)) return true;
            }
            return false;
        }
        boolean withEqual = !(comparison instanceof GreaterThan || comparison instanceof LessThan);
        for (int i = 0; i < comparison.children().size(); i++) {
            Expression operand = (Expression) comparison.children().apply(i);
            if (operand instanceof Literal && isMistaken(operand.dataType(), ((Literal) operand).value(), withEqual)) return true;
            // The reader also gets what a subquery finds, which may be a zero.
            if (operand instanceof PlanExpression && isFloating(operand.dataType())) return true;
        }
        return false;
    }

    private static boolean isMistaken(DataType type, Object value, boolean withEqual) {
        if (!(value instanceof Number)) return false;
        double number = ((Number) value).doubleValue();
        if (type instanceof DateType) return number >= FIRST_DAY && number <= LAST_DAY;
        if (type instanceof TimestampType) return number >= FIRST_DAY * MICROS && number <= (LAST_DAY + 1) * MICROS;
        return withEqual && isFloating(type) && number == 0;
    }

    private static boolean isFloating(DataType type) {
        return type instanceof DoubleType || type instanceof FloatType;
    }

    /** The same comparison of calls that give their only operand. */
    private static Expression onRows(Expression comparison) {
        List operands = new ArrayList();
        for (int i = 0; i < comparison.children().size(); i++) {
            Object operand = comparison.children().apply(i);
            boolean isColumn = operand instanceof Attribute || operand instanceof GetStructField;
            operands.add(isColumn ? new Coalesce(only(operand)) : operand);
        }
        return (Expression) comparison.withNewChildren(CollectionConverters.asScala(operands).toSeq());
    }

    private static scala.collection.immutable.Seq only(Object one) {
        List list = new ArrayList();
        list.add(one);
        return CollectionConverters.asScala(list).toSeq();
    }
}
